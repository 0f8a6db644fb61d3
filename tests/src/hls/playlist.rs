//! Playlist text, read as strictly as the strictest player (RFC 8216 §4).

use std::collections::HashSet;

/// A media playlist.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaPlaylist {
    /// EXT-X-TARGETDURATION in seconds.
    pub target_duration: u64,
    /// EXT-X-MEDIA-SEQUENCE.
    pub media_sequence: u64,
    /// EXT-X-DISCONTINUITY-SEQUENCE; 0 if absent.
    pub discontinuity_sequence: u64,
    /// EXT-X-INDEPENDENT-SEGMENTS.
    pub independent_segments: bool,
    /// EXT-X-ENDLIST.
    pub ended: bool,
    /// In the order listed.
    pub segments: Vec<Segment>,
}

/// One listed segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Media sequence number.
    pub sequence: u64,
    /// As written.
    pub uri: String,
    /// EXTINF in seconds.
    pub duration_s: f64,
    /// Whether EXT-X-DISCONTINUITY stands before it.
    pub discontinuity: bool,
    /// EXT-X-PROGRAM-DATE-TIME as Unix milliseconds.
    pub program_date_time_ms: Option<i64>,
}

const ONCE: [&str; 6] = [
    "#EXT-X-VERSION",
    "#EXT-X-TARGETDURATION",
    "#EXT-X-MEDIA-SEQUENCE",
    "#EXT-X-DISCONTINUITY-SEQUENCE",
    "#EXT-X-INDEPENDENT-SEGMENTS",
    "#EXT-X-ENDLIST",
];

/// The tags read so far that apply to what follows.
#[derive(Default)]
struct Reading {
    once: HashSet<String>,
    target: Option<u64>,
    sequence: Option<u64>,
    discontinuity_sequence: u64,
    independent_segments: bool,
    ended: bool,
    segments: Vec<Segment>,
    duration: Option<f64>,
    discontinuity: bool,
    date: Option<i64>,
}

impl Reading {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (tag, value) = line.split_once(':').unwrap_or((line, ""));
        if ONCE.contains(&tag) && !self.once.insert(tag.to_owned()) {
            return Err(format!("{tag} twice (P1)"));
        }
        if self.ended {
            return Err(format!("{line:?} after ENDLIST"));
        }
        match tag {
            "#EXT-X-VERSION" => {
                number(tag, value)?;
            }
            "#EXT-X-TARGETDURATION" => self.target = Some(number(tag, value)?),
            "#EXT-X-MEDIA-SEQUENCE" => self.sequence = Some(number(tag, value)?),
            "#EXT-X-DISCONTINUITY-SEQUENCE" => {
                if !self.segments.is_empty() || self.discontinuity {
                    return Err("DISCONTINUITY-SEQUENCE after a segment or DISCONTINUITY (P7)".to_owned());
                }
                self.discontinuity_sequence = number(tag, value)?;
            }
            "#EXT-X-INDEPENDENT-SEGMENTS" => self.independent_segments = true,
            "#EXT-X-ENDLIST" => self.ended = true,
            "#EXT-X-DISCONTINUITY" => self.discontinuity = true,
            "#EXT-X-PROGRAM-DATE-TIME" => {
                self.date = Some(unix_ms(value).ok_or(format!("PDT {value:?} (P13)"))?);
            }
            "#EXTINF" => self.duration = Some(extinf(value)?),
            "#EXT-X-PLAYLIST-TYPE" => return Err("PLAYLIST-TYPE in a sliding window (P15)".to_owned()),
            _ if line.starts_with('#') || line.is_empty() => return Err(format!("unexpected line {line:?}")),
            _ => self.uri(line)?,
        }
        Ok(())
    }

    fn uri(&mut self, line: &str) -> Result<(), String> {
        let duration_s = self.duration.take().ok_or(format!("{line:?} without EXTINF"))?;
        let first = self
            .sequence
            .ok_or("MEDIA-SEQUENCE missing before the first segment (P6)")?;
        self.segments.push(Segment {
            sequence: first + self.segments.len() as u64,
            uri: relative(line)?,
            duration_s,
            discontinuity: std::mem::take(&mut self.discontinuity),
            program_date_time_ms: self.date.take(),
        });
        Ok(())
    }
}

impl MediaPlaylist {
    /// Parses and checks what can be told from one playlist alone.
    ///
    /// # Errors
    /// With the rule broken.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with("#EXTM3U\n") || !text.ends_with('\n') || text.contains('\r') {
            return Err("must start with #EXTM3U, use LF only and end with one (P1)".to_owned());
        }
        let mut reading = Reading::default();
        for line in text.lines().skip(1) {
            reading.line(line)?;
        }
        let playlist = Self {
            target_duration: reading.target.ok_or("TARGETDURATION missing")?,
            media_sequence: reading.sequence.ok_or("MEDIA-SEQUENCE missing")?,
            discontinuity_sequence: reading.discontinuity_sequence,
            independent_segments: reading.independent_segments,
            ended: reading.ended,
            segments: reading.segments,
        };
        playlist.check()?;
        Ok(playlist)
    }

    fn check(&self) -> Result<(), String> {
        if self.target_duration == 0 {
            return Err("TARGETDURATION 0 (P3)".to_owned());
        }
        for segment in &self.segments {
            #[allow(clippy::cast_precision_loss)]
            if segment.duration_s.round() > self.target_duration as f64 {
                return Err(format!(
                    "EXTINF {} over TARGETDURATION {} (P3)",
                    segment.duration_s, self.target_duration
                ));
            }
            if segment.program_date_time_ms.is_none() {
                return Err(format!("segment {} has no PROGRAM-DATE-TIME (P13)", segment.uri));
            }
        }
        for pair in self.segments.windows(2) {
            let [before, after] = pair else { continue };
            let (Some(from), Some(to)) = (before.program_date_time_ms, after.program_date_time_ms) else {
                continue;
            };
            #[allow(clippy::cast_possible_truncation)]
            let off = (to - from) - (before.duration_s * 1000.0).round() as i64;
            if !after.discontinuity && off.abs() > 1 {
                return Err(format!(
                    "PROGRAM-DATE-TIME of {} is {off} ms off EXTINF (P13)",
                    after.uri
                ));
            }
        }
        Ok(())
    }

    /// Sum of the listed durations in seconds.
    #[must_use]
    pub fn duration_s(&self) -> f64 {
        self.segments.iter().map(|segment| segment.duration_s).sum()
    }
}

/// A multivariant playlist with one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Multivariant {
    /// URI of the first variant.
    pub uri: String,
    /// Attributes of EXT-X-STREAM-INF, quotes removed.
    pub attributes: Vec<(String, String)>,
}

impl Multivariant {
    /// Parses it.
    ///
    /// # Errors
    /// With the rule broken.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with("#EXTM3U\n") || !text.ends_with('\n') {
            return Err("must start with #EXTM3U and end with a line feed (P1)".to_owned());
        }
        let mut lines = text.lines();
        let attributes = lines
            .by_ref()
            .find_map(|line| line.strip_prefix("#EXT-X-STREAM-INF:"))
            .ok_or("no EXT-X-STREAM-INF")?;
        let uri = lines
            .next()
            .filter(|line| !line.starts_with('#'))
            .ok_or("no URI after EXT-X-STREAM-INF")?;
        Ok(Self {
            uri: relative(uri)?,
            attributes: attribute_list(attributes)?,
        })
    }

    /// An attribute's value.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

fn attribute_list(mut text: &str) -> Result<Vec<(String, String)>, String> {
    let mut list = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text
            .split_once('=')
            .ok_or(format!("attribute list at {text:?}"))?;
        let (value, rest) = if let Some(quoted) = rest.strip_prefix('"') {
            let (value, rest) = quoted.split_once('"').ok_or(format!("open quote at {text:?}"))?;
            (value, rest)
        } else {
            rest.find(',').map_or((rest, ""), |at| rest.split_at(at))
        };
        list.push((name.to_owned(), value.to_owned()));
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    Ok(list)
}

fn number(tag: &str, value: &str) -> Result<u64, String> {
    value
        .parse()
        .map_err(|_| format!("{tag}: {value:?} is no number"))
}

fn extinf(value: &str) -> Result<f64, String> {
    let number = value
        .strip_suffix(',')
        .ok_or(format!("EXTINF {value:?} does not end with a comma (P5)"))?;
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    if decimals < 3 {
        return Err(format!("EXTINF {value:?} has fewer than 3 decimals (P5)"));
    }
    number
        .parse()
        .map_err(|_| format!("EXTINF {value:?} is no number"))
}

fn relative(uri: &str) -> Result<String, String> {
    if uri.contains("://") || uri.starts_with('/') {
        return Err(format!("URI {uri:?} is not relative (P18)"));
    }
    Ok(uri.to_owned())
}

/// `2026-12-01T15:18:33.123Z` or with `+00:00` as Unix milliseconds.
fn unix_ms(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let time = time.strip_suffix('Z').or_else(|| time.strip_suffix("+00:00"))?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut time = time.splitn(3, ':');
    let (hour, minute): (i64, i64) = (time.next()?.parse().ok()?, time.next()?.parse().ok()?);
    let (second, millis) = time.next()?.split_once('.')?;
    if millis.len() != 3 {
        return None;
    }
    let (second, millis): (i64, i64) = (second.parse().ok()?, millis.parse().ok()?);
    // Days since 1970-01-01 in the Gregorian calendar, with years that begin in March.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_unix_milliseconds() {
        assert_eq!(unix_ms("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(unix_ms("2026-12-01T15:18:33.123Z"), Some(1_796_138_313_123));
        assert_eq!(unix_ms("2026-12-01 15:18:33.123Z"), None);
    }

    #[test]
    fn broken_rules_are_named() {
        let good = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:7\n\
                    #EXT-X-PROGRAM-DATE-TIME:2026-12-01T00:00:00.000Z\n#EXTINF:2.00000,\na.ts\n";
        let playlist = MediaPlaylist::parse(good).unwrap();
        assert_eq!((playlist.media_sequence, playlist.segments.len()), (7, 1));
        for (from, to, rule) in [
            ("2.00000,", "2.00000", "P5"),
            ("2.00000,", "2.60000,", "P3"),
            ("a.ts", "/a.ts", "P18"),
            ("#EXT-X-VERSION:3\n", "#EXT-X-VERSION:3\n#EXT-X-VERSION:3\n", "P1"),
        ] {
            let error = MediaPlaylist::parse(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(rule), "{error}");
        }
    }
}
