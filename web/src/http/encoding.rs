//! `Accept-Encoding`: whether a client takes gzip (RFC 9110 §12.5.3).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT_ENCODING;

/// Whether the client takes gzip and likes it no less than the plain body.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    for value in headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
    {
        for item in value.split(',') {
            let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
            let quality = quality(parameters);
            match coding.trim().to_ascii_lowercase().as_str() {
                "gzip" | "x-gzip" => gzip = Some(quality),
                "*" => any = Some(quality),
                "identity" => identity = Some(quality),
                _ => {}
            }
        }
    }
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && gzip >= identity.unwrap_or(0)
}

/// The weight in thousandths; 1000 when none is given or it cannot be read.
fn quality(parameters: &str) -> u32 {
    let weight = parameters.split(';').find_map(|p| p.trim().strip_prefix("q="));
    let Some(weight) = weight.and_then(|w| w.trim().parse::<f64>().ok()) else {
        return 1000;
    };
    (weight.clamp(0.0, 1.0) * 1000.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn real_clients_are_understood() {
        for (value, wanted) in [
            ("gzip, deflate, br, zstd", true),
            ("gzip, identity;q=1, *;q=0", true),
            ("identity", false),
            ("identity;q=1, *;q=0", false),
            ("deflate, gzip", true),
            ("gzip;q=0", false),
            ("gzip;q=0.5, identity;q=0.9", false),
            ("*", true),
            ("GZIP ; q=1.0", true),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), wanted, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
