//! The players' page and its scripts, compiled in: path → bytes, type, ETag, gzip.

use std::io::Write;
use std::sync::OnceLock;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use sha1::{Digest, Sha1};

use crate::http::{answer, conditional, encoding};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// What a page of ours may do: nothing from elsewhere, no inline script or style. Media players need blobs for
/// MSE and for hls.js's worker.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; media-src blob: 'self'; worker-src blob: 'self'; \
    img-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'";

/// A file compiled into the binary.
struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
    prepared: OnceLock<Prepared>,
}

/// What is made of an asset at its first use.
struct Prepared {
    etag: String,
    gzip: Bytes,
}

const fn asset(name: &'static str, content_type: &'static str, bytes: &'static [u8]) -> Asset {
    Asset {
        name,
        content_type,
        bytes,
        prepared: OnceLock::new(),
    }
}

static ASSETS: [Asset; 9] = [
    asset("style.css", STYLE, include_bytes!("../page/style.css")),
    asset("common.js", SCRIPT, include_bytes!("../page/common.js")),
    asset("list.js", SCRIPT, include_bytes!("../page/list.js")),
    asset("player.js", SCRIPT, include_bytes!("../page/player.js")),
    asset("engines.js", SCRIPT, include_bytes!("../page/engines.js")),
    asset("icon.svg", SVG, include_bytes!("../page/icon.svg")),
    asset("hls.min.js", SCRIPT, include_bytes!("../vendor/hls.min.js")),
    asset("mpegts.js", SCRIPT, include_bytes!("../vendor/mpegts.js")),
    asset("LICENSES.txt", TEXT, include_bytes!("../vendor/LICENSES.txt")),
];

const LIST_PAGE: &str = include_str!("../page/list.html");
const PLAYER_PAGE: &str = include_str!("../page/player.html");

/// `/assets/NAME`.
pub(crate) async fn serve(name: &str, request: &HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return answer::not_found();
    };
    let Some(prepared) = asset.prepared().await else {
        return answer::unavailable("shutting down\n", 1);
    };
    let gzip = encoding::accepts_gzip(request);
    let etag = conditional::quoted(&prepared.etag, if gzip { "-gz" } else { "" });
    let body = if gzip {
        prepared.gzip.clone()
    } else {
        Bytes::from_static(asset.bytes)
    };
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    headers.insert(CACHE_CONTROL, answer::NO_CACHE);
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Ok(value) = HeaderValue::from_str(&etag) {
        headers.insert(ETAG, value);
    }
    if conditional::none_match(request, &etag) {
        conditional::not_modified(response)
    } else {
        response
    }
}

impl Asset {
    /// Hashes and compresses at first use, off the workers that carry media.
    async fn prepared(&'static self) -> Option<&'static Prepared> {
        if let Some(prepared) = self.prepared.get() {
            return Some(prepared);
        }
        tokio::task::spawn_blocking(|| self.prepared.get_or_init(|| self.prepare()))
            .await
            .ok()
    }

    fn prepare(&self) -> Prepared {
        Prepared {
            etag: tag_of(self.bytes),
            gzip: gzip(self.bytes),
        }
    }
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 3), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map(Bytes::from).unwrap_or_default()
}

/// Enough of a SHA-1 to tell versions apart.
fn tag_of(bytes: &[u8]) -> String {
    Sha1::digest(bytes)
        .iter()
        .take(10)
        .fold(String::new(), |tag, byte| tag + &format!("{byte:02x}"))
}

/// The ports that pages name for RTMP, as far as they name any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RtmpPorts {
    /// Without TLS.
    pub(crate) plain: Option<u16>,
    /// Under TLS: for pages opened by HTTPS.
    pub(crate) tls: Option<u16>,
}

impl RtmpPorts {
    fn put_into(self, html: &str) -> String {
        html.replace("{{rtmp_port}}", &port(self.plain))
            .replace("{{rtmps_port}}", &port(self.tls))
    }
}

/// The list page.
pub(crate) fn list_page(request: &HeaderMap, rtmp: RtmpPorts) -> Response {
    page(request, rtmp.put_into(LIST_PAGE))
}

/// The player page of `stream`, which is `depth` folders below the root. All its links are relative, so that
/// the gateway may stand below a path prefix.
pub(crate) fn player_page(request: &HeaderMap, stream: &str, depth: usize, rtmp: RtmpPorts) -> Response {
    let page_of_stream = rtmp
        .put_into(PLAYER_PAGE)
        .replace("{{root}}", &"../".repeat(depth))
        .replace("{{stream}}", &escape(stream));
    page(request, page_of_stream)
}

fn port(port: Option<u16>) -> String {
    port.map(|port| port.to_string()).unwrap_or_default()
}

fn page(request: &HeaderMap, html: String) -> Response {
    let etag = conditional::quoted(&tag_of(html.as_bytes()), "");
    let mut response = Response::new(Body::from(html));
    let headers = response.headers_mut();
    let mut set = |name: &'static str, value: &'static str| {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    };
    set("content-type", HTML);
    set("cache-control", "no-cache");
    set("content-security-policy", CONTENT_SECURITY_POLICY);
    set("referrer-policy", "no-referrer");
    if let Ok(value) = HeaderValue::from_str(&etag) {
        headers.insert(ETAG, value);
    }
    if conditional::none_match(request, &etag) {
        conditional::not_modified(response)
    } else {
        response
    }
}

/// Text as HTML text or as an attribute's value.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::Sha256;

    #[test]
    fn vendored_files_are_the_ones_in_the_table() {
        let table = include_str!("../vendor/README.md");
        for (file, bytes) in [
            ("hls.min.js", include_bytes!("../vendor/hls.min.js").as_slice()),
            ("mpegts.js", include_bytes!("../vendor/mpegts.js")),
        ] {
            let hash: String = Sha256::digest(bytes)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let row = table
                .lines()
                .find(|line| line.contains(&format!("`{file}`")))
                .unwrap();
            assert!(row.contains(&hash), "{file} has {hash}");
        }
    }

    #[test]
    fn pages_name_only_assets_that_exist_and_nothing_elsewhere() {
        for page in [LIST_PAGE, PLAYER_PAGE] {
            for link in page.split("assets/").skip(1) {
                let name = link.split('"').next().unwrap();
                assert!(ASSETS.iter().any(|asset| asset.name == name), "{name}");
            }
            for foreign in ["=\"http", "=\"//", "<style", "style=\"", "onclick"] {
                assert!(!page.contains(foreign), "{foreign}");
            }
        }
    }

    #[tokio::test]
    async fn assets_come_compressed_and_revalidate() {
        let mut request = HeaderMap::new();
        let plain = serve("style.css", &request).await;
        assert_eq!(plain.headers()["content-type"], STYLE);
        assert!(!plain.headers().contains_key("content-encoding"));
        request.insert("accept-encoding", HeaderValue::from_static("gzip"));
        let packed = serve("style.css", &request).await;
        assert_eq!(packed.headers()["content-encoding"], "gzip");
        assert_ne!(packed.headers()["etag"], plain.headers()["etag"]);
        request.insert("if-none-match", packed.headers()["etag"].clone());
        assert_eq!(serve("style.css", &request).await.status(), 304);
        assert_eq!(serve("../Cargo.toml", &request).await.status(), 404);
    }

    #[tokio::test]
    async fn a_streams_name_cannot_break_out_of_the_page() {
        let response = player_page(
            &HeaderMap::new(),
            "live/\"><script>alert(1)</script>",
            2,
            RtmpPorts {
                plain: Some(1935),
                tls: None,
            },
        );
        let body = axum::body::to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap();
        let html = String::from_utf8(body.to_vec()).unwrap();
        assert!(!html.contains("<script>alert"));
        assert!(html.contains("&quot;&gt;&lt;script&gt;"));
        assert!(html.contains("../../assets/player.js"));
        assert!(!html.contains("{{"));
    }
}
