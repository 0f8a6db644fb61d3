//! [`Link`]: a signed link, good for one stream and one action until it expires.

use std::fmt::Write;
use std::net::IpAddr;

use ring::hmac;
use spillway_config::AccessKey;

use crate::request::{Action, Request};

/// The first line of what is signed.
pub const LINK_VERSION: &str = "spillway-link-v1";

/// What a signed link says, before and beside its signature.
///
/// The signature is HMAC-SHA-256, in hexadecimal, over five lines without a newline at the end:
///
/// ```text
/// spillway-link-v1
/// play                 (or publish)
/// live/cam             (the stream, decoded)
/// 1767225600           (the expiry, in seconds since 1970)
/// -                    (or the address the link is bound to)
/// ```
///
/// The link carries it as `?exp=1767225600&sig=…`, and `&ip=1` when an address is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    /// What it is good for.
    pub action: Action,
    /// The stream: `app/name`, decoded.
    pub stream: &'a str,
    /// When it expires, in seconds since 1970.
    pub expires: u64,
    /// The only address it is good for.
    pub address: Option<IpAddr>,
}

/// What is wrong with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkError {
    Expired,
    BadSignature,
}

impl Link<'_> {
    fn signed_text(&self) -> String {
        let address = self.address.map(|ip| ip.to_canonical().to_string());
        format!(
            "{LINK_VERSION}\n{}\n{}\n{}\n{}",
            self.action.label(),
            self.stream,
            self.expires,
            address.as_deref().unwrap_or("-")
        )
    }

    /// The query `exp=…&sig=…` of the link, signed with `secret`.
    pub fn sign(&self, secret: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let tag = hmac::sign(&key, self.signed_text().as_bytes());
        let bound = if self.address.is_some() { "&ip=1" } else { "" };
        format!("exp={}{bound}&sig={}", self.expires, hex(tag.as_ref()))
    }

    fn is_signed_by(&self, secret: &[u8], signature: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        // Compares in constant time.
        hmac::verify(&key, self.signed_text().as_bytes(), signature).is_ok()
    }
}

/// Checks the link in the parameters of `request`: `Ok` says whether it is bound to the address. The signature comes
/// first, so that the answer to a forged link does not depend on its expiry.
pub(crate) fn check(
    request: &Request<'_>,
    expires: &str,
    signature: &str,
    keys: &[AccessKey],
) -> Result<bool, LinkError> {
    let bound = match request.params.get("ip") {
        None => false,
        Some("1") => true,
        Some(_) => return Err(LinkError::BadSignature),
    };
    let expires: u64 = expires.parse().map_err(|_| LinkError::BadSignature)?;
    let signature = unhex(signature).ok_or(LinkError::BadSignature)?;
    let link = Link {
        action: request.action,
        stream: request.stream,
        expires,
        address: bound.then_some(request.peer),
    };
    let fitting = keys.iter().filter(|key| key.stream().matches(request.stream));
    // Every key is tried, so that the time taken does not tell which one matched.
    let signed = fitting
        .filter(|key| link.is_signed_by(key.secret().expose().as_bytes(), &signature))
        .count();
    match signed {
        0 => Err(LinkError::BadSignature),
        _ if expires <= request.now => Err(LinkError::Expired),
        _ => Ok(bound),
    }
}

/// In lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 {
        return None;
    }
    let digits: Option<Vec<u8>> = text
        .bytes()
        .map(|b| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect();
    digits.map(|digits| {
        digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |sum, d| sum << 4 | d))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_what_openssl_makes_of_the_five_lines() {
        // printf 'spillway-link-v1\nplay\nlive/cam\n1767225600\n-' | openssl dgst -sha256 -hmac a-long-random-text
        let link = Link {
            action: Action::Play,
            stream: "live/cam",
            expires: 1_767_225_600,
            address: None,
        };
        assert_eq!(
            link.sign(b"a-long-random-text"),
            "exp=1767225600&sig=99f06f5c3cf7cf7b4f3e9c9c39649be546e6cff02875101602857e9f218563aa"
        );
    }
}
