//! The stream a client means: one path and one list of parameters out of the app, the tcUrl and
//! the stream name.
//!
//! Clients disagree on where the app ends and the name begins, and on which of the three carries
//! the query. Whatever the split, the same URL gives the same [`StreamPath`].

/// What a publish or play command names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamPath {
    /// App and name joined by `/`, without empty segments, query, `mp4:`-style prefix and `.flv`
    /// suffix. Not percent-decoded and not validated: it may be anything the client sent.
    pub path: String,
    /// Parameters, percent-decoded: those of the name first, then those of the app and of the tcUrl that
    /// no earlier place had. A parameter without `=` has an empty value. `+` stays `+`, since
    /// tokens are often base64 and RTMP URLs are not forms.
    pub params: Vec<(String, String)>,
}

/// Prefixes by which Flash and FFmpeg say which container a name means. A live stream has none.
const CONTAINER_PREFIXES: [&str; 5] = ["mp4:", "flv:", "f4v:", "mp3:", "id3:"];
/// A suffix FFmpeg strips and other clients leave.
const FLV_SUFFIX: &str = ".flv";

impl StreamPath {
    /// Combines what the connect command said (`app`, `tc_url`) with the `name` of a publish or
    /// play command. Any of them may be empty.
    pub fn new(app: &str, tc_url: &str, name: &str) -> Self {
        let url = url_path(tc_url);
        let (url_app, url_query) = split_query(url);
        let (mut app_path, mut app_query) = split_query(app);
        if trim_slashes(app_path).is_empty() {
            (app_path, app_query) = (url_app, app_query.or(url_query));
        }
        let (name_path, mut name_query) = split_query(name);

        // `…/live/key?token=a/b`: clients cut the URL at its last slash, inside the query. An app
        // of two or more parts with a query is therefore taken as the whole path, and a name without
        // a query as the other half of the app's. An app of one part (`live?token=x`) keeps its name.
        let rejoined;
        let mut path = clean_path(app_path);
        match app_query {
            Some(query) if path.contains('/') && !name.is_empty() && name_query.is_none() => {
                rejoined = format!("{query}/{name}");
                name_query = Some(&rejoined);
                app_query = None;
            }
            _ => {
                let name = clean_path(without_prefix(name_path.trim_matches(' ')));
                if !path.is_empty() && !name.is_empty() {
                    path.push('/');
                }
                path.push_str(&name);
            }
        }
        if let Some(shorter) = path.strip_suffix(FLV_SUFFIX)
            && !shorter.is_empty()
            && !shorter.ends_with('/')
        {
            path.truncate(shorter.len());
        }

        Self {
            path,
            params: merged([name_query, app_query, url_query]),
        }
    }

    /// The first parameter called `key`.
    pub fn param(&self, key: &str) -> Option<&str> {
        self.params
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }
}

/// The part of a URL after the authority, without its leading slash; empty if there is none.
fn url_path(url: &str) -> &str {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    after_scheme.split_once('/').map_or("", |(_, path)| path)
}

/// Splits at the first `?`.
fn split_query(text: &str) -> (&str, Option<&str>) {
    match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    }
}

fn trim_slashes(text: &str) -> &str {
    text.trim_matches('/')
}

/// Without empty segments.
fn clean_path(path: &str) -> String {
    let mut clean = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        if !clean.is_empty() {
            clean.push('/');
        }
        clean.push_str(segment);
    }
    clean
}

fn without_prefix(name: &str) -> &str {
    CONTAINER_PREFIXES
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name)
}

/// What is left of a stream name to compare it by, as sent in FCUnpublish.
pub(crate) fn without_query_and_prefix(name: &str) -> &str {
    without_prefix(split_query(name).0)
}

/// The parameters of several queries; a key that an earlier query has is not taken again.
fn merged(queries: [Option<&str>; 3]) -> Vec<(String, String)> {
    let mut params: Vec<(String, String)> = Vec::new();
    for query in queries.into_iter().flatten() {
        let earlier = params.len();
        for pair in query
            .split(['&', '?'])
            .filter(|pair| !pair.is_empty())
            .take(MAX_PARAMS)
        {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let key = percent_decoded(key);
            if !params.iter().take(earlier).any(|(known, _)| *known == key) {
                params.push((key, percent_decoded(value)));
            }
        }
    }
    params
}

/// Parameters read from one query. Real URLs have a handful; the bound keeps the search for
/// repeated keys cheap.
const MAX_PARAMS: usize = 64;

/// Decodes `%XX`; anything else, also a broken escape, stays as it is. Bytes that are not UTF-8
/// afterwards become U+FFFD.
fn percent_decoded(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if let (b'%', Some([high, low])) = (byte, after.first_chunk::<2>())
            && let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low))
        {
            decoded.push(high << 4 | low);
            rest = after.get(2..).unwrap_or_default();
        } else {
            decoded.push(byte);
            rest = after;
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(app: &str, tc_url: &str, name: &str, path: &str, params: &[(&str, &str)]) {
        let stream = StreamPath::new(app, tc_url, name);
        let expected: Vec<(String, String)> = params
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(
            (stream.path.as_str(), &stream.params),
            (path, &expected),
            "{app} | {tc_url} | {name}"
        );
    }

    #[test]
    fn however_the_client_splits_it_the_path_is_the_same() {
        check("live", "rtmp://h/live", "key", "live/key", &[]);
        check("live/inst", "rtmp://h/live/inst", "key", "live/inst/key", &[]);
        check("live", "rtmp://h/live", "inst/key", "live/inst/key", &[]);
        check("live/", "rtmp://h/live/", "/key", "live/key", &[]);
        check("/live//", "rtmp://h//live//", "key", "live/key", &[]);
    }

    #[test]
    fn a_missing_app_is_taken_from_the_url() {
        check(
            "",
            "rtmp://h:1935/live?token=x",
            "key",
            "live/key",
            &[("token", "x")],
        );
        check("", "rtmp://h", "key", "key", &[]);
        check("", "", "key", "key", &[]);
        check("", "rtmp://[::1]:1935/live", "key", "live/key", &[]);
    }

    #[test]
    fn an_empty_name_leaves_the_path_of_the_app() {
        check("live/key", "rtmp://h/live/key", "", "live/key", &[]);
        check(
            "live/key?token=a",
            "rtmp://h/live/key?token=a",
            "",
            "live/key",
            &[("token", "a")],
        );
        check("live", "rtmp://h/live", "", "live", &[]);
        check("live", "rtmp://h/live", "?token=a", "live", &[("token", "a")]);
        check("", "", "", "", &[]);
    }

    #[test]
    fn the_query_may_be_on_any_part() {
        check(
            "live",
            "rtmp://h/live",
            "key?token=a",
            "live/key",
            &[("token", "a")],
        );
        check(
            "live?token=x",
            "rtmp://h/live?token=x",
            "key",
            "live/key",
            &[("token", "x")],
        );
        check(
            "live",
            "rtmp://h/live?token=x",
            "key",
            "live/key",
            &[("token", "x")],
        );
        check(
            "live?a=app&b=app",
            "rtmp://h/live?b=url&c=url",
            "key?a=name",
            "live/key",
            &[("a", "name"), ("b", "app"), ("c", "url")],
        );
        check(
            "live",
            "",
            "key?a=1&a=2&&flag",
            "live/key",
            &[("a", "1"), ("a", "2"), ("flag", "")],
        );
        check(
            "live",
            "",
            "key?a=1?clientConfigId=7",
            "live/key",
            &[("a", "1"), ("clientConfigId", "7")],
        );
    }

    #[test]
    fn a_slash_inside_the_query_is_put_back() {
        check(
            "live/key?token=a",
            "rtmp://h/live/key?token=a",
            "b",
            "live/key",
            &[("token", "a/b")],
        );
        check(
            "live/key?token=a/b",
            "rtmp://h/live/key?token=a",
            "c==",
            "live/key",
            &[("token", "a/b/c==")],
        );
        check(
            "live",
            "rtmp://h/live",
            "key?token=a/b+c==",
            "live/key",
            &[("token", "a/b+c==")],
        );
    }

    #[test]
    fn container_prefixes_and_the_flv_suffix_are_no_part_of_the_name() {
        check("live", "", "mp4:key.mp4", "live/key.mp4", &[]);
        check("live", "", "flv:key", "live/key", &[]);
        check("live", "", "key.flv?x=1", "live/key", &[("x", "1")]);
        check("live/key.flv", "", "", "live/key", &[]);
        check("live", "", "a.b-c d", "live/a.b-c d", &[]);
        check("live", "", ".flv", "live/.flv", &[]);
    }

    #[test]
    fn the_path_is_left_encoded_and_parameters_are_decoded() {
        check(
            "live",
            "",
            "%E4%BD%A0?t=%2Fa%zz%4",
            "live/%E4%BD%A0",
            &[("t", "/a%zz%4")],
        );
        check("live", "", "你好#frag", "live/你好#frag", &[]);
        check("live", "", "key?t=%FF", "live/key", &[("t", "\u{FFFD}")]);
    }

    #[test]
    fn param_finds_the_first_of_its_name() {
        let stream = StreamPath::new("live?k=app", "", "key?k=name");
        assert_eq!(stream.param("k"), Some("name"));
        assert_eq!(stream.param("none"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived_and_no_segment_is_empty(app in ".{0,40}", url in ".{0,40}", name in ".{0,40}") {
            let stream = StreamPath::new(&app, &url, &name);
            prop_assert!(stream.path.is_empty() || stream.path.split('/').all(|segment| !segment.is_empty()));
        }

        #[test]
        fn parameters_are_bounded(query in "[a-z=&?]{0,2000}") {
            let stream = StreamPath::new("live", "", &format!("key?{query}"));
            prop_assert!(stream.params.len() <= 3 * MAX_PARAMS);
        }
    }
}
