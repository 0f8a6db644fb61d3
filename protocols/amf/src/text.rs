//! Text that must fit a length field.

/// The longest start of `text` that has at most `max_bytes` and ends between characters.
pub(crate) fn cut(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn text_is_cut_only_where_it_is_too_long_and_between_characters() {
        assert_eq!(cut("abc", 5), "abc");
        assert_eq!(cut("abc", 2), "ab");
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("é", 0), "");
    }
}
