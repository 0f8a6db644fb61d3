//! A playlist for one viewer: the shared text with a query on every address in it.

/// `playlist` with `query` on each of its URIs: lines of their own and the attributes `URI="…"` of tags
/// (draft-pantos-hls-rfc8216bis §4.1). `query` must be escaped as a URI's query is.
pub fn with_query(playlist: &str, query: &str) -> String {
    let uris = playlist.lines().filter(|line| !line.starts_with('#')).count();
    let mut text = String::with_capacity(playlist.len() + (uris + 1) * (query.len() + 1));
    for line in playlist.lines() {
        if !line.starts_with('#') {
            push_uri(&mut text, line, query);
        } else if let Some((before, rest)) = line.split_once(URI_ATTRIBUTE)
            && let Some((uri, after)) = rest.split_once('"')
        {
            text.push_str(before);
            text.push_str(URI_ATTRIBUTE);
            push_uri(&mut text, uri, query);
            text.push('"');
            text.push_str(after);
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

const URI_ATTRIBUTE: &str = "URI=\"";

fn push_uri(text: &mut String, uri: &str, query: &str) {
    text.push_str(uri);
    if !uri.is_empty() {
        text.push(if uri.contains('?') { '&' } else { '?' });
        text.push_str(query);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_carries_the_query_and_nothing_else_changes() {
        let shared = "#EXTM3U\n#EXT-X-MAP:URI=\"init.mp4\",BYTERANGE=\"3@0\"\n#EXTINF:2.0,\nx-1.ts\n\
                      #EXTINF:2.0,\nx-2.ts?a=1\n#EXT-X-ENDLIST\n";
        let own = "#EXTM3U\n#EXT-X-MAP:URI=\"init.mp4?s=7\",BYTERANGE=\"3@0\"\n#EXTINF:2.0,\nx-1.ts?s=7\n\
                   #EXTINF:2.0,\nx-2.ts?a=1&s=7\n#EXT-X-ENDLIST\n";
        assert_eq!(with_query(shared, "s=7"), own);
    }
}
