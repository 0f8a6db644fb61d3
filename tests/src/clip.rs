//! The clips that are published: made once by ffmpeg's test sources, kept in the system's temporary folder.
//!
//! Each is an FLV file of [`SECONDS`] seconds that starts with a key frame and no audio before it, so that a
//! viewer who is there from the start receives each frame of the file.

use std::path::PathBuf;
use std::process::Command;

use crate::tools;

/// Length of a clip.
pub const SECONDS: u32 = 8;
/// Video frames a second.
pub const FPS: u32 = 25;
/// Seconds between key frames.
pub const GOP_SECONDS: u32 = 2;
/// Encoded before the part that is kept, so that no encoder priming is in the clip.
const LEAD_IN_SECONDS: u32 = 2;

/// What a clip is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clip {
    /// H.264 without B-frames, AAC stereo at 48 kHz.
    Plain,
    /// H.264 with B-frames, AAC.
    BFrames,
    /// AAC only.
    AudioOnly,
    /// H.264 only.
    VideoOnly,
    /// HEVC and AAC by Enhanced FLV.
    Hevc,
    /// AV1 and Opus by Enhanced FLV.
    Av1Opus,
    /// H.264 at about 4 Mbit/s with a key frame each second, AAC: fills sockets soon.
    Fat,
    /// H.264 of another size than the other clips, AAC.
    OtherSize,
    /// MP3 at 44.1 kHz beside H.264.
    Mp3,
}

impl Clip {
    /// All clips.
    pub const ALL: [Self; 9] = [
        Self::Plain,
        Self::BFrames,
        Self::AudioOnly,
        Self::VideoOnly,
        Self::Hevc,
        Self::Av1Opus,
        Self::Fat,
        Self::OtherSize,
        Self::Mp3,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::BFrames => "b-frames",
            Self::AudioOnly => "audio-only",
            Self::VideoOnly => "video-only",
            Self::Hevc => "hevc",
            Self::Av1Opus => "av1-opus",
            Self::Fat => "fat",
            Self::OtherSize => "other-size",
            Self::Mp3 => "mp3",
        }
    }

    /// Whether it needs the static ffmpeg to be published and played.
    #[must_use]
    pub const fn is_enhanced(self) -> bool {
        matches!(self, Self::Hevc | Self::Av1Opus)
    }

    /// The ffmpeg that can publish and play it.
    #[must_use]
    pub fn ffmpeg(self) -> PathBuf {
        if self.is_enhanced() {
            tools::static_ffmpeg()
        } else {
            tools::ffmpeg()
        }
    }

    /// Whether it has video.
    #[must_use]
    pub const fn has_video(self) -> bool {
        !matches!(self, Self::AudioOnly)
    }

    /// Whether it has audio.
    #[must_use]
    pub const fn has_audio(self) -> bool {
        !matches!(self, Self::VideoOnly)
    }

    fn encoder(self) -> Vec<String> {
        let gop = match self {
            Self::Fat => FPS,
            _ => FPS * GOP_SECONDS,
        };
        let x264 = format!(
            "-c:v libx264 -preset veryfast -g {gop} -keyint_min {gop} -sc_threshold 0 -x264-params open-gop=0 -threads 1"
        );
        let aac = "-c:a aac -aac_pns 0 -b:a 64k -ac 2";
        let line = match self {
            Self::Plain | Self::OtherSize => format!("{x264} -bf 0 {aac}"),
            Self::BFrames => format!("{x264} -bf 3 -b_strategy 0 {aac}"),
            Self::AudioOnly => format!("-vn {aac}"),
            Self::VideoOnly => format!("{x264} -bf 0 -an"),
            Self::Hevc => format!(
                "-c:v libx265 -preset ultrafast -g {gop} -x265-params log-level=none:scenecut=0:open-gop=0:bframes=2:pools=1 {aac}"
            ),
            Self::Av1Opus => {
                format!("-c:v libsvtav1 -preset 12 -g {gop} -svtav1-params lp=1 -c:a libopus -b:a 64k")
            }
            Self::Fat => format!(
                "{x264} -bf 0 -b:v 4000k -minrate 4000k -maxrate 4000k -bufsize 4000k -nal-hrd cbr {aac}"
            ),
            Self::Mp3 => format!("{x264} -bf 0 -c:a libmp3lame -b:a 64k -ar 44100"),
        };
        line.split_ascii_whitespace().map(str::to_owned).collect()
    }

    /// The file; made now if it is not there.
    ///
    /// # Panics
    /// When ffmpeg cannot make it.
    #[must_use]
    pub fn file(self) -> PathBuf {
        let folder = std::env::temp_dir().join("spillway-test-clips-5");
        let path = folder.join(format!("{}.flv", self.name()));
        if path.is_file() {
            return path;
        }
        let scratch = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let size = if self == Self::OtherSize {
            "480x270"
        } else {
            "320x180"
        };
        let whole = scratch.path().join("whole.mp4");
        let kept = scratch.path().join("kept.flv");
        let mut encode = Command::new(self.ffmpeg());
        encode.args(["-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i"]);
        encode.arg(format!("testsrc2=size={size}:rate={FPS}"));
        encode.args([
            "-f",
            "lavfi",
            "-i",
            "sine=frequency=440:beep_factor=4:sample_rate=48000",
        ]);
        encode.arg("-t").arg((LEAD_IN_SECONDS + SECONDS + 1).to_string());
        encode
            .args(["-pix_fmt", "yuv420p"])
            .args(self.encoder())
            .arg(&whole);
        run(encode);
        let mut cut = Command::new(self.ffmpeg());
        cut.args([
            "-v",
            "error",
            "-nostdin",
            "-y",
            "-ss",
            &LEAD_IN_SECONDS.to_string(),
        ])
        .arg("-i")
        .arg(&whole);
        cut.args([
            "-t",
            &SECONDS.to_string(),
            "-c",
            "copy",
            "-flvflags",
            "no_duration_filesize",
        ]);
        if self.has_audio() {
            // The sound frame that begins before the first picture is dropped.
            cut.args(["-bsf:a", "noise=drop='lt(pts,0)'"]);
        }
        cut.arg(&kept);
        run(cut);
        // Another test may make the same file at the same time: the rename is atomic and either one serves.
        let unique = folder.join(format!("{}.{}", self.name(), std::process::id()));
        std::fs::copy(&kept, &unique).unwrap_or_else(|error| panic!("{}: {error}", unique.display()));
        std::fs::rename(&unique, &path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }
}

fn run(mut command: Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
}
