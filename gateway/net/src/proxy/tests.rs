use proptest::prelude::*;

use super::*;

/// Feeds as a reader does, never more than is asked for; gives the result and how many bytes it took.
fn feed(bytes: &[u8]) -> (Result<Source, ProxyError>, usize) {
    let mut taken = 0;
    loop {
        match parse(&bytes[..taken]) {
            Ok(Progress::Done(source)) => return (Ok(source), taken),
            Err(error) => return (Err(error), taken),
            Ok(Progress::Needs(more)) if taken + more <= bytes.len() => taken += more,
            Ok(Progress::Needs(_)) => return (Err(ProxyError::NoHeader), bytes.len()),
        }
    }
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&V2_SIGNATURE[..], &[0x20 | command, family], &length, body].concat()
}

fn address(text: &str) -> Result<Source, ProxyError> {
    Ok(Source::Client(text.parse().unwrap()))
}

#[test]
fn lines_of_version_1() {
    for (line, source) in [
        (
            "PROXY TCP4 203.0.113.5 192.0.2.1 45678 443\r\n",
            address("203.0.113.5:45678"),
        ),
        (
            "PROXY TCP6 2001:db8::5 2001:db8::1 1 2\r\n",
            address("[2001:db8::5]:1"),
        ),
        ("PROXY UNKNOWN\r\n", Ok(Source::Unknown)),
        (
            "PROXY UNKNOWN ffff:f::1 ffff:f::2 65535 65535\r\n",
            Ok(Source::Unknown),
        ),
        (
            "PROXY TCP4 203.0.113.5 192.0.2.1 45678\r\n",
            Err(ProxyError::BadLine),
        ),
        (
            "PROXY TCP4 203.0.113.5 192.0.2.1 045 443\r\n",
            Err(ProxyError::BadLine),
        ),
        (
            "PROXY TCP4 203.0.113.5 192.0.2.1 65536 443\r\n",
            Err(ProxyError::BadLine),
        ),
        (
            "PROXY TCP4 2001:db8::5 192.0.2.1 1 443\r\n",
            Err(ProxyError::BadLine),
        ),
        (
            "PROXY TCP4  203.0.113.5 192.0.2.1 1 443\r\n",
            Err(ProxyError::BadLine),
        ),
        (
            "PROXY UDP4 203.0.113.5 192.0.2.1 1 443\r\n",
            Err(ProxyError::BadLine),
        ),
        (
            "PROXY TCP4 203.0.113.5 192.0.2.1 1 443 9\r\n",
            Err(ProxyError::BadLine),
        ),
        ("PROXY UNKNOWN and\nmore\r\n", Err(ProxyError::BadLine)),
        ("GET / HTTP/1.1\r\n\r\n", Err(ProxyError::NoHeader)),
        ("\x03 an RTMP handshake", Err(ProxyError::NoHeader)),
        ("\x16\x03\x01 a TLS hello", Err(ProxyError::NoHeader)),
    ] {
        assert_eq!(feed(line.as_bytes()).0, source, "{line:?}");
    }
}

#[test]
fn a_line_ends_at_107_bytes_at_the_latest() {
    let line = format!("PROXY UNKNOWN {}", "x".repeat(200));
    assert_eq!(feed(line.as_bytes()), (Err(ProxyError::BadLine), MAX_V1_BYTES));
    let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(MAX_V1_BYTES - 16));
    assert_eq!(feed(longest.as_bytes()), (Ok(Source::Unknown), MAX_V1_BYTES));
}

#[test]
fn headers_of_version_2() {
    let four = [203, 0, 113, 5, 192, 0, 2, 1, 0xB2, 0x6E, 1, 0xBB];
    assert_eq!(feed(&v2(1, 0x11, &four)).0, address("203.0.113.5:45678"));
    let with_values = [&four[..], &[0x04, 0, 3, 0, 0, 0]].concat();
    assert_eq!(feed(&v2(1, 0x11, &with_values)).0, address("203.0.113.5:45678"));
    let six: Vec<u8> = [0x20, 1, 0x0d, 0xb8]
        .into_iter()
        .chain([0; 28])
        .chain([0, 7, 0, 8])
        .collect();
    assert_eq!(feed(&v2(1, 0x21, &six)).0, address("[2001:db8::]:7"));
    for (command, family) in [(0, 0x11), (1, 0x00), (1, 0x31), (1, 0x12)] {
        assert_eq!(feed(&v2(command, family, &four)).0, Ok(Source::Unknown));
    }
    assert_eq!(feed(&v2(1, 0x11, &four[..11])).0, Err(ProxyError::TooShort(11)));
    assert_eq!(feed(&v2(1, 0x21, &four)).0, Err(ProxyError::TooShort(12)));
    assert_eq!(feed(&v2(2, 0x11, &four)).0, Err(ProxyError::BadVersion(0x22)));
    assert_eq!(feed(&v2(0x10, 0x11, &four)).0, Err(ProxyError::BadVersion(0x30)));
    let long = v2(1, 0x11, &[0; MAX_V2_BYTES - V2_HEAD + 1]);
    assert_eq!(feed(&long), (Err(ProxyError::TooLong(2033)), V2_HEAD));
}

proptest! {
    #[test]
    fn whatever_comes_no_more_is_asked_for_than_a_header_may_have(
        start in prop_oneof![Just(&b""[..]), Just(&b"PROXY "[..]), Just(&b"PROXY TCP4 "[..]), Just(&V2_SIGNATURE[..])],
        rest in proptest::collection::vec(any::<u8>(), 0..3000),
    ) {
        let bytes = [start, &rest].concat();
        let mut taken = 0;
        while let Ok(Progress::Needs(more)) = parse(&bytes[..taken]) {
            prop_assert!(more > 0);
            taken += more;
            prop_assert!(taken <= MAX_HEADER_BYTES);
            if taken > bytes.len() {
                break;
            }
        }
    }

    #[test]
    fn what_was_written_reads_back_and_what_follows_is_left(
        client in any::<SocketAddr>(), server: SocketAddr, tail in proptest::collection::vec(any::<u8>(), 0..40), values in 0_usize..300,
    ) {
        let server = SocketAddr::new(
            if client.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) },
            server.port(),
        );
        let client = SocketAddr::new(client.ip(), client.port());
        let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
        let line = format!("PROXY {family} {} {} {} {}\r\n", client.ip(), server.ip(), client.port(), server.port());
        let ip = |ip: IpAddr| match ip { IpAddr::V4(v4) => v4.octets().to_vec(), IpAddr::V6(v6) => v6.octets().to_vec() };
        let body = [
            ip(client.ip()), ip(server.ip()), client.port().to_be_bytes().to_vec(), server.port().to_be_bytes().to_vec(), vec![4; values],
        ].concat();
        let binary = v2(1, if client.is_ipv4() { 0x11 } else { 0x21 }, &body);
        for header in [line.into_bytes(), binary] {
            let bytes = [&header[..], &tail].concat();
            prop_assert_eq!(feed(&bytes), (Ok(Source::Client(client)), header.len()));
        }
    }
}
