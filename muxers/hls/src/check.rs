//! A strict reader of media playlists: every rule that one playlist, or one after another, must keep.
//!
//! It shares no code with the writer; tests everywhere use it.

/// A broken rule and what was seen instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule}: {seen}")]
pub struct Violation {
    /// The rule's short name.
    pub rule: &'static str,
    /// What was seen.
    pub seen: String,
}

fn broken(rule: &'static str, seen: impl Into<String>) -> Violation {
    Violation {
        rule,
        seen: seen.into(),
    }
}

fn ensure(holds: bool, rule: &'static str, seen: &str) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(broken(rule, seen)) }
}

/// A listed segment read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The URI line.
    pub uri: String,
    /// `EXTINF` in microseconds.
    pub duration_us: u64,
    /// `EXT-X-DISCONTINUITY` in front of it.
    pub discontinuity: bool,
    /// `EXT-X-PROGRAM-DATE-TIME` in Unix milliseconds.
    pub program_date_time_unix_ms: i64,
}

/// A media playlist read back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Playlist {
    /// `EXT-X-TARGETDURATION`.
    pub target_duration_s: u64,
    /// `EXT-X-MEDIA-SEQUENCE`.
    pub media_sequence: u64,
    /// `EXT-X-DISCONTINUITY-SEQUENCE`.
    pub discontinuity_sequence: u64,
    /// `EXT-X-INDEPENDENT-SEGMENTS`.
    pub independent: bool,
    /// `EXT-X-ENDLIST`.
    pub ended: bool,
    /// The listed segments.
    pub entries: Vec<Entry>,
}

#[derive(Default)]
struct Reader {
    playlist: Playlist,
    seen: Vec<String>,
    discontinuity: bool,
    date: Option<i64>,
    duration_us: Option<u64>,
}

/// Reads one media playlist.
///
/// # Errors
/// The first broken rule.
pub fn media(text: &str) -> Result<Playlist, Violation> {
    ensure(text.starts_with("#EXTM3U\n"), "P1", "does not begin with #EXTM3U")?;
    ensure(text.ends_with('\n'), "P1", "no newline at the end")?;
    ensure(
        !text.contains('\r') && !text.contains('\u{FEFF}'),
        "P1",
        "carriage return or byte order mark",
    )?;
    let mut reader = Reader::default();
    for line in text.lines().skip(1) {
        ensure(
            !line.trim().is_empty() && line.trim() == line,
            "P1",
            "blank line or stray space",
        )?;
        ensure(!reader.playlist.ended, "P16", "lines after EXT-X-ENDLIST")?;
        reader.line(line)?;
    }
    let nothing_left = reader.duration_us.is_none() && reader.date.is_none() && !reader.discontinuity;
    ensure(nothing_left, "P1", "segment tags without a segment")?;
    for required in [
        "#EXT-X-VERSION",
        "#EXT-X-TARGETDURATION",
        "#EXT-X-MEDIA-SEQUENCE",
        "#EXT-X-DISCONTINUITY-SEQUENCE",
    ] {
        ensure(
            reader.seen.iter().any(|tag| tag == required),
            "P6/P7",
            &format!("{required} is missing"),
        )?;
    }
    check_segments(&reader.playlist)?;
    Ok(reader.playlist)
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Violation> {
        let (tag, value) = line
            .split_once(':')
            .map_or((line, None), |(tag, value)| (tag, Some(value)));
        let number = |rule| {
            let value = value.and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| broken(rule, format!("no number: {line}")))
        };
        match tag {
            "#EXT-X-VERSION" => {
                self.once(tag)?;
                ensure(number("P2")? == 3, "P2", line)
            }
            "#EXT-X-TARGETDURATION" => {
                self.once(tag)?;
                self.playlist.target_duration_s = number("P3")?;
                ensure(self.playlist.target_duration_s >= 1, "P3", line)
            }
            "#EXT-X-MEDIA-SEQUENCE" => {
                self.once(tag)?;
                self.playlist.media_sequence = number("P6")?;
                Ok(())
            }
            "#EXT-X-DISCONTINUITY-SEQUENCE" => {
                self.once(tag)?;
                self.playlist.discontinuity_sequence = number("P7")?;
                Ok(())
            }
            "#EXT-X-INDEPENDENT-SEGMENTS" => {
                self.once(tag)?;
                self.playlist.independent = true;
                ensure(value.is_none(), "P20", line)
            }
            "#EXT-X-ENDLIST" => {
                self.playlist.ended = true;
                ensure(value.is_none(), "P16", line)
            }
            _ => self.segment_line(tag, value, line),
        }
    }

    /// A tag for the whole playlist: once, and before the first segment.
    fn once(&mut self, tag: &str) -> Result<(), Violation> {
        ensure(
            !self.seen.iter().any(|seen| seen == tag),
            "P1",
            &format!("{tag} twice"),
        )?;
        let early = self.playlist.entries.is_empty() && self.duration_us.is_none() && !self.discontinuity;
        ensure(early, "P6/P7", &format!("{tag} after a segment's tags"))?;
        self.seen.push(tag.to_owned());
        Ok(())
    }

    fn segment_line(&mut self, tag: &str, value: Option<&str>, line: &str) -> Result<(), Violation> {
        match (tag, value) {
            ("#EXT-X-DISCONTINUITY", None) => {
                ensure(!self.discontinuity, "P14", "two discontinuities")?;
                self.discontinuity = true;
            }
            ("#EXT-X-PROGRAM-DATE-TIME", Some(value)) => {
                ensure(self.date.is_none(), "P13", "two dates")?;
                self.date = Some(unix_ms(value).ok_or_else(|| broken("P13", line))?);
            }
            ("#EXTINF", Some(value)) => {
                ensure(self.duration_us.is_none(), "P5", "two durations")?;
                self.duration_us = Some(microseconds(value).ok_or_else(|| broken("P5", line))?);
            }
            _ if line.starts_with('#') => return Err(broken("P15", format!("unexpected {line}"))),
            _ => {
                let relative = !line.contains("://") && !line.starts_with('/') && !line.contains("..");
                ensure(relative, "P18", line)?;
                self.playlist.entries.push(Entry {
                    uri: line.to_owned(),
                    duration_us: self
                        .duration_us
                        .take()
                        .ok_or_else(|| broken("P5", "URI without EXTINF"))?,
                    discontinuity: std::mem::take(&mut self.discontinuity),
                    program_date_time_unix_ms: self.date.take().ok_or_else(|| broken("P13", "no date"))?,
                });
            }
        }
        Ok(())
    }
}

fn check_segments(playlist: &Playlist) -> Result<(), Violation> {
    let mut names: Vec<&str> = playlist.entries.iter().map(|entry| entry.uri.as_str()).collect();
    names.sort_unstable();
    ensure(
        names.windows(2).all(|pair| pair[0] != pair[1]),
        "P18",
        "a URI twice",
    )?;
    for entry in &playlist.entries {
        let rounded = (entry.duration_us + 500_000) / 1_000_000;
        let seen = format!("{} µs above {} s", entry.duration_us, playlist.target_duration_s);
        ensure(rounded <= playlist.target_duration_s, "P3", &seen)?;
        ensure(entry.duration_us > 0, "P5", "no duration")?;
    }
    for pair in playlist.entries.windows(2) {
        let step = pair[1].program_date_time_unix_ms - pair[0].program_date_time_unix_ms;
        let off = (step * 1000 - pair[0].duration_us as i64).abs();
        if pair[1].discontinuity {
            ensure(step >= 0, "P13", "date goes back")?;
        } else {
            ensure(off <= 1500, "P13", &format!("date is {off} µs off the duration"))?;
        }
    }
    Ok(())
}

/// Compares two successive readings of one playlist.
///
/// # Errors
/// The first broken rule.
pub fn successive(before: &Playlist, after: &Playlist) -> Result<(), Violation> {
    ensure(
        before.target_duration_s == after.target_duration_s,
        "P4",
        "target duration changed",
    )?;
    ensure(
        after.media_sequence >= before.media_sequence,
        "P6",
        "media sequence goes back",
    )?;
    ensure(
        !before.ended || before == after,
        "P16",
        "an ended playlist changed",
    )?;
    let removed = usize::try_from(after.media_sequence - before.media_sequence).unwrap_or(usize::MAX);
    let gone = before
        .entries
        .iter()
        .take(removed)
        .filter(|entry| entry.discontinuity)
        .count() as u64;
    let expected = before.discontinuity_sequence + gone;
    if removed <= before.entries.len() {
        ensure(
            after.discontinuity_sequence == expected,
            "P7",
            "discontinuity sequence does not follow",
        )?;
    } else {
        ensure(
            after.discontinuity_sequence >= expected,
            "P7",
            "discontinuity sequence goes back",
        )?;
    }
    let kept = before.entries.get(removed..).unwrap_or_default();
    ensure(
        after.entries.len() >= kept.len(),
        "P8",
        "segments removed at the end",
    )?;
    for (old, new) in kept.iter().zip(&after.entries) {
        ensure(old == new, "P8", &format!("{} was edited", old.uri))?;
    }
    let listed: u64 = after.entries.iter().map(|entry| entry.duration_us).sum();
    // Each duration is rounded to a microsecond.
    let rounding = after.entries.len() as u64;
    let enough = removed == 0 || listed + rounding >= 3 * after.target_duration_s * 1_000_000;
    ensure(
        enough,
        "P11",
        "fewer than three target durations listed after a removal",
    )
}

/// `6.006000,` in microseconds: at least three decimals, a dot, the comma.
fn microseconds(value: &str) -> Option<u64> {
    let (whole, decimals) = value.strip_suffix(',')?.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || !(3..=6).contains(&decimals.len()) {
        return None;
    }
    let micros: u64 = format!("{decimals:0<6}").parse().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000)?
        .checked_add(micros)
}

/// `2026-12-01T15:04:05.678Z` in Unix milliseconds.
fn unix_ms(value: &str) -> Option<i64> {
    let (date, time) = value.strip_suffix('Z')?.split_once('T')?;
    let part = |text: &str, from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let shape = date.len() == 10 && time.len() == 12;
    let marks = date.as_bytes().get(4) == Some(&b'-') && time.as_bytes().get(8) == Some(&b'.');
    if !shape || !marks {
        return None;
    }
    let (year, month, day) = (part(date, 0, 4)?, part(date, 5, 7)?, part(date, 8, 10)?);
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut days: i64 = (1970..year).map(|year| 365 + i64::from(leap(year))).sum();
    let lengths = [
        31,
        28 + i64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    days += lengths.iter().take(usize::try_from(month - 1).ok()?).sum::<i64>() + day - 1;
    let (hours, minutes) = (part(time, 0, 2)?, part(time, 3, 5)?);
    let (seconds, ms) = (part(time, 6, 8)?, part(time, 9, 12)?);
    Some(((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + ms)
}
