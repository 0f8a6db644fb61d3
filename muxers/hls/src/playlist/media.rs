//! The media playlist (RFC 8216 §4.3.3, draft-pantos-hls-rfc8216bis §4.4.3).

use std::fmt::Write;

use crate::date::IsoDate;
use crate::window::Snapshot;

/// TS segments with decimal durations need version 3 and nothing newer.
const VERSION: u8 = 3;

/// Bytes of one segment's lines, for sizing the text.
const LINES_BYTES: usize = 160;

/// The media playlist of a window. Segment URIs are file names beside the playlist.
pub fn render(snapshot: &Snapshot) -> String {
    let listed = snapshot.listed();
    let mut text = String::with_capacity(LINES_BYTES * (listed.len() + 2));
    // Writing to a String cannot fail.
    let _ = write_playlist(&mut text, snapshot);
    text
}

fn write_playlist(text: &mut String, snapshot: &Snapshot) -> std::fmt::Result {
    let listed = snapshot.listed();
    let first_msn = listed.first().map_or(0, |first| first.msn);
    writeln!(text, "#EXTM3U\n#EXT-X-VERSION:{VERSION}")?;
    if snapshot.independent() {
        text.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
    }
    writeln!(text, "#EXT-X-TARGETDURATION:{}", snapshot.target_duration_s)?;
    writeln!(text, "#EXT-X-MEDIA-SEQUENCE:{first_msn}")?;
    writeln!(
        text,
        "#EXT-X-DISCONTINUITY-SEQUENCE:{}",
        snapshot.discontinuity_sequence
    )?;
    for listed in listed {
        let segment = &listed.segment;
        if segment.discontinuity {
            text.push_str("#EXT-X-DISCONTINUITY\n");
        }
        writeln!(
            text,
            "#EXT-X-PROGRAM-DATE-TIME:{}",
            IsoDate(segment.program_date_time_unix_ms)
        )?;
        let micros = (segment.duration_ticks_90k * 100 + 4) / 9;
        writeln!(
            text,
            "#EXTINF:{}.{:06},\n{}",
            micros / 1_000_000,
            micros % 1_000_000,
            listed.name
        )?;
    }
    if snapshot.ended {
        text.push_str("#EXT-X-ENDLIST\n");
    }
    Ok(())
}
