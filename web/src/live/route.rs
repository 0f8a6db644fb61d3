//! [`Target`]: what a raw request path asks for, by exact pattern and before any look-up.

/// What a path of the public listener asks for. Streams are named by their raw path `APP/NAME`, still
/// percent-encoded: decoding and checking is `StreamKey::parse`'s work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// `/`: the list of streams.
    List,
    /// `/streams.json`.
    Streams,
    /// `/assets/NAME`.
    Asset(&'a str),
    /// `/APP/NAME.flv`: HTTP-FLV or, with an upgrade, WS-FLV.
    Flv(&'a str),
    /// `/APP/NAME/index.m3u8`.
    Multivariant(&'a str),
    /// `/APP/NAME.m3u8`.
    MultivariantOuter(&'a str),
    /// `/APP/NAME/media.m3u8`.
    Media(&'a str),
    /// `/APP/NAME/FILE.ts`.
    Segment {
        /// The stream's raw path.
        stream: &'a str,
        /// The file's name.
        file: &'a str,
    },
    /// `/APP/NAME`: the player page.
    Page {
        /// The stream's raw path.
        stream: &'a str,
        /// How many folders the page is below the root.
        depth: usize,
    },
    /// `/APP/NAME/`: the page with a slash too many.
    PageSlash {
        /// The last segment, for a relative redirect.
        name: &'a str,
    },
    /// Nothing that could exist.
    Nothing,
}

/// The longest name of a segment file; ours are shorter.
const MAX_FILE_CHARS: usize = 96;

impl<'a> Target<'a> {
    /// Reads the path of a request's URL, without its query.
    pub(crate) fn of(path: &'a str) -> Self {
        let Some(path) = path.strip_prefix('/') else {
            return Self::Nothing;
        };
        match path {
            "" => return Self::List,
            "streams.json" => return Self::Streams,
            _ => {}
        }
        if let Some(name) = path.strip_prefix("assets/") {
            return Self::Asset(name);
        }
        let Some((folder, last)) = path.rsplit_once('/') else {
            return Self::Nothing;
        };
        let in_stream = folder.contains('/');
        match last {
            "" => match folder.rsplit_once('/') {
                Some((_, name)) if !name.is_empty() => Self::PageSlash { name },
                _ => Self::Nothing,
            },
            "index.m3u8" if in_stream => Self::Multivariant(folder),
            "media.m3u8" if in_stream => Self::Media(folder),
            _ => Self::of_file(path, folder, last, in_stream),
        }
    }

    fn of_file(path: &'a str, folder: &'a str, last: &'a str, in_stream: bool) -> Self {
        if let Some(stream) = path.strip_suffix(".flv") {
            return Self::Flv(stream);
        }
        if let Some(stream) = path.strip_suffix(".m3u8") {
            return Self::MultivariantOuter(stream);
        }
        if last.ends_with(".ts") {
            return if in_stream && is_file_name(last) {
                Self::Segment {
                    stream: folder,
                    file: last,
                }
            } else {
                Self::Nothing
            };
        }
        Self::Page {
            stream: path,
            depth: path.matches('/').count(),
        }
    }
}

fn is_file_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    name.len() <= MAX_FILE_CHARS && !name.starts_with('.') && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_pattern() {
        use Target::*;
        for (path, target) in [
            ("/", List),
            ("/streams.json", Streams),
            ("/assets/player.js", Asset("player.js")),
            ("/live/cam.flv", Flv("live/cam")),
            ("/a/b/cam%201.flv", Flv("a/b/cam%201")),
            ("/live/cam/index.m3u8", Multivariant("live/cam")),
            ("/a/b/cam/index.m3u8", Multivariant("a/b/cam")),
            ("/live/cam/media.m3u8", Media("live/cam")),
            ("/live/cam.m3u8", MultivariantOuter("live/cam")),
            ("/live/index.m3u8", MultivariantOuter("live/index")),
            (
                "/live/cam/9-120.ts",
                Segment {
                    stream: "live/cam",
                    file: "9-120.ts",
                },
            ),
            (
                "/live/cam",
                Page {
                    stream: "live/cam",
                    depth: 1,
                },
            ),
            (
                "/a/b/cam.1",
                Page {
                    stream: "a/b/cam.1",
                    depth: 2,
                },
            ),
            ("/live/cam/", PageSlash { name: "cam" }),
            ("/live/9.ts", Nothing),
            ("/live/cam/..%2f9.ts", Nothing),
            ("/live/cam/.ts", Nothing),
            ("/favicon.ico", Nothing),
            ("/live/", Nothing),
            ("//", Nothing),
            ("", Nothing),
            ("*", Nothing),
        ] {
            assert_eq!(Target::of(path), target, "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_segment_file_never_leaves_its_folder(path in "(/[a-z.%0-9]{0,6}){0,4}(\\.ts)?") {
            if let Target::Segment { file, .. } = Target::of(&path) {
                prop_assert!(!file.contains('/') && !file.contains('%') && !file.starts_with('.'));
            }
        }
    }
}
