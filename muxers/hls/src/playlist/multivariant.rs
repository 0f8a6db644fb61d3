//! The multivariant playlist (RFC 8216 §4.3.4, draft-pantos-hls-rfc8216bis §4.4.6).

use std::fmt::Write;

use spillway_media::codec::Geometry;

use crate::segment::{Segment, TrackInfo};
use crate::window::Snapshot;

/// Added to the measured peak: a live stream's measured peak must stay below 125 % of what was said.
const PEAK_HEADROOM_PERCENT: u64 = 125;

/// Added to the measured average, which must stay within 110 %.
const AVERAGE_HEADROOM_PERCENT: u64 = 105;

/// Bit rates are told in whole kilobits per second, rounded up.
const RATE_STEP: u64 = 1000;

/// What the playlist says of the one variant. Measured once, so that the text stays the same while the tracks do.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// `BANDWIDTH`, bits per second.
    pub bandwidth: u64,
    /// `AVERAGE-BANDWIDTH`, bits per second.
    pub average_bandwidth: u64,
    /// `CODECS`; `None` if one of them has no known string.
    pub codecs: Option<String>,
    /// `RESOLUTION` and `FRAME-RATE`.
    pub geometry: Option<Geometry>,
    /// `EXT-X-INDEPENDENT-SEGMENTS`.
    pub independent: bool,
}

impl Variant {
    /// Measures the listed segments.
    pub fn measure(snapshot: &Snapshot) -> Self {
        let listed = snapshot.listed();
        let half_target = u64::from(snapshot.target_duration_s) * 90_000 / 2;
        let long_enough = |ticks: u64| ticks >= half_target;
        let rates = |all: bool| {
            let segments = listed.iter().map(|listed| &listed.segment);
            segments.filter(move |segment| all || long_enough(segment.duration_ticks_90k))
        };
        let peak = rates(false).map(Segment::bits_per_second).max();
        let peak = peak
            .or_else(|| rates(true).map(Segment::bits_per_second).max())
            .unwrap_or(0);
        let bytes: u64 = listed.iter().map(|listed| listed.segment.bytes).sum();
        let ticks: u64 = listed
            .iter()
            .map(|listed| listed.segment.duration_ticks_90k)
            .sum();
        let average = bytes.saturating_mul(8 * 90_000) / ticks.max(1);
        let bandwidth = with_headroom(peak, PEAK_HEADROOM_PERCENT);
        Self {
            bandwidth,
            average_bandwidth: with_headroom(average, AVERAGE_HEADROOM_PERCENT).min(bandwidth),
            codecs: codecs(snapshot),
            geometry: newest_geometry(snapshot),
            independent: snapshot.independent(),
        }
    }

    /// Brings the tracks up to date; the bit rates stay unless the tracks changed.
    pub fn refresh(&mut self, snapshot: &Snapshot) {
        let codecs = codecs(snapshot);
        let geometry = newest_geometry(snapshot);
        if codecs != self.codecs || geometry != self.geometry {
            *self = Self::measure(snapshot);
        }
        self.independent = snapshot.independent();
    }
}

fn with_headroom(rate: u64, percent: u64) -> u64 {
    (rate.saturating_mul(percent) / 100)
        .div_ceil(RATE_STEP)
        .max(1)
        .saturating_mul(RATE_STEP)
}

/// Every codec of the listed segments, the newest segments' first: one that still is in the list stays named.
fn codecs(snapshot: &Snapshot) -> Option<String> {
    let mut video: Vec<&str> = Vec::new();
    let mut audio: Vec<&str> = Vec::new();
    for listed in snapshot.listed().iter().rev() {
        let tracks = &listed.segment.tracks;
        add_codec(&mut video, tracks.video.as_ref())?;
        add_codec(&mut audio, tracks.audio.as_ref())?;
    }
    video.append(&mut audio);
    (!video.is_empty()).then(|| video.join(","))
}

fn add_codec<'a>(codecs: &mut Vec<&'a str>, track: Option<&'a TrackInfo>) -> Option<()> {
    if let Some(track) = track {
        let codec = track.codec_string.as_deref()?;
        if !codecs.contains(&codec) {
            codecs.push(codec);
        }
    }
    Some(())
}

fn newest_geometry(snapshot: &Snapshot) -> Option<Geometry> {
    let newest = snapshot
        .listed()
        .iter()
        .rev()
        .find_map(|listed| listed.segment.tracks.video.as_ref());
    newest.and_then(|track| track.geometry)
}

/// The multivariant playlist with the media playlist at `uri`.
pub fn render(variant: &Variant, uri: &str) -> String {
    let mut text = String::with_capacity(256);
    // Writing to a String cannot fail.
    let _ = write_playlist(&mut text, variant, uri);
    text
}

fn write_playlist(text: &mut String, variant: &Variant, uri: &str) -> std::fmt::Result {
    text.push_str("#EXTM3U\n#EXT-X-VERSION:3\n");
    if variant.independent {
        text.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
    }
    write!(text, "#EXT-X-STREAM-INF:BANDWIDTH={}", variant.bandwidth)?;
    write!(text, ",AVERAGE-BANDWIDTH={}", variant.average_bandwidth)?;
    if let Some(codecs) = &variant.codecs {
        write!(text, ",CODECS=\"{codecs}\"")?;
    }
    if let Some(geometry) = variant.geometry {
        write!(text, ",RESOLUTION={}x{}", geometry.width, geometry.height)?;
        if let Some(rate) = geometry.frame_rate {
            write!(text, ",FRAME-RATE={rate:.3}")?;
        }
    }
    writeln!(text, "\n{uri}")
}
