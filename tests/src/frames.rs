//! Decoded frames by their hash: what a viewer sees and hears, compared with the source.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use crate::clip::Clip;
use crate::process::Process;
use crate::wait::secs;

/// Hashes of decoded frames in output order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Pictures.
    pub video: Vec<String>,
    /// Audio frames.
    pub audio: Vec<String>,
    /// What the demuxer or a decoder complained of.
    pub errors: String,
}

impl Frames {
    /// Fails unless all frames of `source` are here, and nothing else.
    ///
    /// # Panics
    /// With the first difference.
    pub fn assert_same_as(&self, source: &Self, what: &str) {
        same(&source.video, &self.video, &format!("{what}: video"));
        same(&source.audio, &self.audio, &format!("{what}: audio"));
    }

    /// Fails if a demuxer or decoder complained.
    ///
    /// # Panics
    /// With what it said.
    pub fn assert_no_errors(&self, what: &str) {
        assert!(
            self.errors.is_empty(),
            "{what}: ffmpeg complained:\n{}",
            self.errors
        );
    }
}

/// ffmpeg from 7 on says this at the well-formed end of any chunked HTTP body; a plain Node server gets it too.
fn is_end_of_chunks(line: &str) -> bool {
    line.starts_with("[in#0/flv") && line.ends_with("Error during demuxing: Input/output error")
}

fn same(source: &[String], received: &[String], what: &str) {
    if source == received {
        return;
    }
    let at = source
        .iter()
        .zip(received)
        .take_while(|(left, right)| left == right)
        .count();
    let found = received
        .get(at)
        .and_then(|hash| source.iter().position(|other| other == hash));
    panic!(
        "{what}: {} frames published, {} received, equal up to frame {at}; received frame {at} is frame {found:?} of the source",
        source.len(),
        received.len()
    );
}

/// An ffmpeg that decodes an input to hashes until the input ends.
pub struct Decoder {
    process: Process,
    folder: TempDir,
}

impl Decoder {
    /// Starts decoding `input` (a file or an URL), with more options before the input.
    ///
    /// # Panics
    /// When no temporary folder can be made.
    #[must_use]
    pub fn start(ffmpeg: &Path, input: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(ffmpeg);
        command
            .args(["-hide_banner", "-nostdin", "-v", "error"])
            .args(options)
            .args(["-i", input]);
        command.args([
            "-map",
            "0:v:0?",
            "-map",
            "0:a:0?",
            "-fps_mode",
            "passthrough",
            "-threads",
            "1",
        ]);
        command.args([
            "-c:v",
            "rawvideo",
            "-c:a",
            "pcm_s16le",
            "-f",
            "framehash",
            "-hash",
            "md5",
        ]);
        command.arg(folder.path().join("hashes"));
        Self {
            process: Process::spawn(&format!("ffmpeg player of {input}"), command),
            folder,
        }
    }

    /// The process, for signals.
    pub const fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Waits for the end of the input.
    ///
    /// # Panics
    /// When it does not end within `limit` or ffmpeg failed.
    pub async fn finish(mut self, limit: Duration) -> Frames {
        self.process.wait_ok(limit).await;
        self.collect()
    }

    /// Ends it now as a user would (SIGINT) and gives what was decoded.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn stop(mut self) -> Frames {
        self.process.signal(rustix::process::Signal::INT);
        self.process.wait(secs(10)).await;
        self.collect()
    }

    fn collect(&self) -> Frames {
        let path = self.folder.path().join("hashes");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut frames = parse(&text);
        let said = self.process.output().text();
        let complaints = said
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !is_end_of_chunks(line));
        frames.errors = complaints.collect::<Vec<_>>().join("\n");
        frames
    }
}

/// All frames of a clip.
pub async fn of_clip(clip: Clip) -> Frames {
    of_file(&clip.ffmpeg(), &clip.file()).await
}

/// All frames of a file.
pub async fn of_file(ffmpeg: &Path, file: &Path) -> Frames {
    Decoder::start(ffmpeg, &file.to_string_lossy(), &[])
        .finish(secs(60))
        .await
}

/// All frames of bytes that a viewer received.
///
/// # Panics
/// When they cannot be written to a temporary file.
pub async fn of_bytes(ffmpeg: PathBuf, bytes: &[u8], name: &str) -> Frames {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    tokio::fs::write(&path, bytes)
        .await
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    of_file(&ffmpeg, &path).await
}

fn parse(text: &str) -> Frames {
    let mut frames = Frames::default();
    let mut video_index = None;
    for line in text.lines() {
        if let Some(media_type) = line.strip_prefix("#media_type ") {
            let (index, kind) = media_type
                .split_once(": ")
                .unwrap_or_else(|| panic!("framehash: {line}"));
            if kind == "video" {
                video_index = Some(index.to_owned());
            }
        } else if !line.starts_with('#') && !line.is_empty() {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let (Some(index), Some(hash)) = (fields.first(), fields.get(5)) else {
                panic!("framehash: {line}");
            };
            let of_video = video_index.as_deref() == Some(*index);
            let list = if of_video {
                &mut frames.video
            } else {
                &mut frames.audio
            };
            list.push((*hash).to_owned());
        }
    }
    frames
}
