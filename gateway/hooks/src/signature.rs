//! The signature by which the endpoint knows that an event is ours and new.

use std::fmt::Write;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The header that carries the signature.
pub const SIGNATURE_HEADER: &str = "spillway-signature";

/// The header's value for a body sent at `time_s` (seconds since 1970): `t=TIME,v1=HEX`, where HEX is
/// HMAC-SHA-256 over `TIME`, a dot and the body.
pub fn signature(secret: &[u8], time_s: u64, body: &[u8]) -> String {
    let time = time_s.to_string();
    let mut header = format!("t={time},v1=");
    for byte in hmac(secret, [time.as_bytes(), b".", body]) {
        // Writing to a String cannot fail.
        let _ = write!(header, "{byte:02x}");
    }
    header
}

/// HMAC-SHA-256 (RFC 2104) over the parts one after the other.
pub(crate) fn hmac<'a>(key: &[u8], parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    // HMAC takes keys of every length: a failure cannot be, and without a code nothing would match.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return [0; 32];
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_what_any_other_program_computes() {
        // printf '1765108000.{"a":1}' | openssl dgst -sha256 -hmac secret
        let header = signature(b"secret", 1_765_108_000, br#"{"a":1}"#);
        assert_eq!(header, OPENSSL);
        assert_ne!(signature(b"secret", 1_765_108_001, br#"{"a":1}"#), header);
        assert_ne!(signature(b"secreT", 1_765_108_000, br#"{"a":1}"#), header);
    }

    #[test]
    fn the_code_is_that_of_rfc_4231() {
        let code = hmac(b"Jefe", [&b"what do ya want "[..], b"for nothing?"]);
        assert_eq!(code[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(code[28..], [0x64, 0xec, 0x38, 0x43]);
    }

    const OPENSSL: &str = "t=1765108000,v1=cb0effc9a2b9ee530cf6d67a9f0846fdca6c5223c1d824e75dac02f2aa191a6c";
}
