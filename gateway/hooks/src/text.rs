//! The endpoint's words, made fit for a peer and a log.

/// The longest reason passed on, in characters: a sentence, and short enough for an RTMP status.
const MAX_REASON_CHARS: usize = 200;

/// Shorter texts are not worth hiding, and hiding them would leave holes in ordinary words.
const SHORTEST_SECRET: usize = 4;

/// What stands in place of a secret.
const HIDDEN: &str = "...";

/// The text on one line, without control characters and without characters that turn the direction of what is around
/// them, cut to a sentence's length.
pub fn presentable(text: &str) -> String {
    let misleading =
        |c: char| matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    let plain: String = text
        .chars()
        .take(4 * MAX_REASON_CHARS)
        .map(|c| if c.is_control() || misleading(c) { ' ' } else { c })
        .collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ").chars().take(MAX_REASON_CHARS).collect()
}

/// The text with `secrets` left out.
pub fn without<'a>(text: &str, secrets: impl Iterator<Item = &'a str>) -> String {
    secrets
        .filter(|secret| secret.len() >= SHORTEST_SECRET)
        .fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_left_out_and_short_words_stay() {
        let text = without(
            "the key hunter2 is no key of a stream",
            ["hunter2", "is"].into_iter(),
        );
        assert_eq!(text, "the key ... is no key of a stream");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_one_line_of_bounded_length(text in ".{0,2000}") {
            let shown = presentable(&text);
            prop_assert!(shown.chars().count() <= MAX_REASON_CHARS);
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
