//! ffmpeg as publisher.

use tokio::process::Command;

use crate::clip::Clip;
use crate::process::Process;

/// Publishes a clip once, in real time.
#[must_use]
pub fn publish_once(clip: Clip, url: &str) -> Process {
    publish(clip, url, &[], &[])
}

/// Publishes a clip again and again, in real time, with rising timestamps.
#[must_use]
pub fn publish_loop(clip: Clip, url: &str) -> Process {
    publish(clip, url, &["-stream_loop", "-1"], &[])
}

/// Publishes a clip in real time with more options before the input and before the output.
#[must_use]
pub fn publish(clip: Clip, url: &str, input: &[&str], output: &[&str]) -> Process {
    let mut command = Command::new(clip.ffmpeg());
    command
        .args(["-hide_banner", "-nostdin", "-v", "warning", "-re"])
        .args(input)
        .arg("-i")
        .arg(clip.file());
    command
        .args(["-c", "copy"])
        .args(output)
        .args(["-flvflags", "no_duration_filesize", "-f", "flv"])
        .arg(url);
    Process::spawn("ffmpeg publisher", command)
}
