//! M3U8 as far as a load player needs it (RFC 8216 §4.3).

/// A playlist of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Playlist {
    /// A multivariant playlist: the URI of its last variant.
    Multivariant(String),
    /// A media playlist.
    Media(MediaPlaylist),
}

/// What a media playlist lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MediaPlaylist {
    pub(crate) target_s: u64,
    /// Media sequence number and URI of each segment.
    pub(crate) segments: Vec<(u64, String)>,
    pub(crate) ended: bool,
}

impl Playlist {
    /// Reads a playlist; `None` if `text` is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if !text.starts_with("#EXTM3U") {
            return None;
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let uris = lines.clone().filter(|line| !line.starts_with('#'));
        if text.contains("#EXT-X-STREAM-INF") {
            return uris
                .clone()
                .next_back()
                .map(|uri| Self::Multivariant(uri.to_owned()));
        }
        let number = |tag| {
            lines
                .clone()
                .find_map(|line| line.strip_prefix(tag)?.trim().parse::<u64>().ok())
        };
        let first = number("#EXT-X-MEDIA-SEQUENCE:").unwrap_or_default();
        Some(Self::Media(MediaPlaylist {
            target_s: number("#EXT-X-TARGETDURATION:")?.max(1),
            segments: (first..).zip(uris.map(str::to_owned)).collect(),
            ended: lines.clone().any(|line| line == "#EXT-X-ENDLIST"),
        }))
    }
}

/// The path that `uri`, found in the document at path `base`, stands for.
pub(crate) fn resolve(base: &str, uri: &str) -> String {
    if let Some((_, rest)) = uri.split_once("://") {
        return rest
            .find('/')
            .and_then(|at| rest.get(at..))
            .unwrap_or("/")
            .to_owned();
    }
    if uri.starts_with('/') {
        return uri.to_owned();
    }
    let document = base.split('?').next().unwrap_or(base);
    let folder = document
        .rfind('/')
        .and_then(|at| document.get(..=at))
        .unwrap_or("/");
    format!("{folder}{uri}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read() {
        let multivariant = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nmedia.m3u8\n";
        assert_eq!(
            Playlist::parse(multivariant),
            Some(Playlist::Multivariant("media.m3u8".into()))
        );
        let media = "#EXTM3U\r\n#EXT-X-TARGETDURATION:2\r\n#EXT-X-MEDIA-SEQUENCE:7\r\n#EXTINF:2,\r\na.ts\r\n#EXTINF:2,\r\nb.ts\r\n";
        let Some(Playlist::Media(media)) = Playlist::parse(media) else {
            panic!("no media playlist")
        };
        assert_eq!((media.target_s, media.ended), (2, false));
        assert_eq!(media.segments, [(7, "a.ts".into()), (8, "b.ts".into())]);
        assert_eq!(Playlist::parse("<html>"), None);
    }

    #[test]
    fn uris_are_resolved_against_the_playlist() {
        assert_eq!(
            resolve("/live/s/index.m3u8?t=1", "media.m3u8"),
            "/live/s/media.m3u8"
        );
        assert_eq!(resolve("/live/s/index.m3u8", "/x/a.ts"), "/x/a.ts");
        assert_eq!(resolve("/live/s/index.m3u8", "http://host:1/x/a.ts"), "/x/a.ts");
    }
}
