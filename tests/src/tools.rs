//! Where the foreign programs are.

use std::path::{Path, PathBuf};

/// The repository's root folder.
///
/// # Panics
/// Never: the manifest's folder has a parent.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
}

/// Debian's ffmpeg.
#[must_use]
pub fn ffmpeg() -> PathBuf {
    program("ffmpeg")
}

/// A current static ffmpeg that speaks Enhanced RTMP: `SPILLWAY_TEST_FFMPEG`, else `.tools/ffmpeg-static` as made by
/// `tests/run --only install`.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn static_ffmpeg() -> PathBuf {
    let path = std::env::var_os("SPILLWAY_TEST_FFMPEG")
        .map_or_else(|| repository().join(".tools/ffmpeg-static"), PathBuf::from);
    assert!(
        path.is_file(),
        "{} is missing: run tests/run --only install",
        path.display()
    );
    path
}

/// A program on the PATH.
///
/// # Panics
/// When it is not installed.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed: run tests/run --only install"))
}
