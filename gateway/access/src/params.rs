//! [`Params`]: the parameters of a URL, among them secrets.

use std::fmt::{self, Write};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Parameters read from one query; real URLs have a handful.
pub const MAX_PARAMS: usize = 64;

/// What needs no escape in a query (RFC 3986 §2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The parameters of a URL, decoded, in their order. Debug output shows the names only: values may be secrets.
#[derive(Clone, PartialEq, Eq, Default, Hash)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Those of a query `a=1&b=2`, percent-decoded. `+` stays `+`, since tokens are often base64. What is beyond
    /// [`MAX_PARAMS`] is not read.
    pub fn of_query(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).take(MAX_PARAMS);
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decoded(name), decoded(value)))
                .collect(),
        )
    }

    /// The value of the first parameter of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Adds one, unless one of this name is there.
    pub fn add_missing(&mut self, name: &str, value: &str) {
        if self.get(name).is_none() {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// The query without the parameter `left_out`, escaped so that it can stand in a playlist.
    pub fn to_query(&self, left_out: &str) -> String {
        let mut query = String::new();
        for (name, value) in self.iter().filter(|(name, _)| *name != left_out) {
            let separator = if query.is_empty() { "" } else { "&" };
            // Writing to a String cannot fail.
            let _ = write!(query, "{separator}{}={}", encode(name), encode(value));
        }
        query
    }
}

/// `text` as part of a query.
pub fn encode(text: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(text, ESCAPED)
}

impl From<Vec<(String, String)>> for Params {
    fn from(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_decoded_once_and_never_shown() {
        let params = Params::of_query("key=a%2Bb+c&&flag&key=second&x=%2525");
        assert_eq!(params.get("key"), Some("a+b+c"));
        assert_eq!(params.get("flag"), Some(""));
        assert_eq!(params.get("x"), Some("%25"));
        assert_eq!(format!("{params:?}"), r#"["key", "flag", "key", "x"]"#);
    }

    proptest! {
        #[test]
        fn a_query_written_is_the_query_read(pairs in proptest::collection::vec(("\\PC{1,8}", "\\PC{0,8}"), 0..6)) {
            let params = Params::from(pairs);
            let query = params.to_query("session");
            prop_assert!(query.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%=&".contains(&b)));
            prop_assert_eq!(Params::of_query(&query), params);
        }
    }
}
