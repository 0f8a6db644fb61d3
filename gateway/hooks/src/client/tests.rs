use std::sync::Arc;

use hyper::Method;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;

const SOON: Duration = Duration::from_secs(20);

fn options() -> ClientOptions {
    ClientOptions {
        https: false,
        ca_file: None,
        connect_timeout: SOON,
        max_body: 64,
        max_in_flight: 1,
    }
}

fn post(uri: &str) -> Request<Bytes> {
    Request::builder()
        .method(Method::POST)
        .uri(uri)
        .body(Bytes::from_static(b"hello"))
        .unwrap()
}

async fn send(client: &Client, uri: &str) -> Result<Answer, Failure> {
    let slot = client.slot_within(Duration::from_millis(10)).await?;
    slot.send(post(uri), SOON).await
}

/// Reads one request with a body of five bytes.
async fn read_request<S: AsyncRead + Unpin>(socket: &mut S) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"hello") {
        assert_ne!(
            socket.read_buf(&mut text).await.unwrap(),
            0,
            "{}",
            String::from_utf8_lossy(&text)
        );
    }
    String::from_utf8(text).unwrap()
}

/// An endpoint that gives the same answer to every connection's first request, and the URL of it.
async fn endpoint(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/hook?a=1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            read_request(&mut socket).await;
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    uri
}

#[tokio::test]
async fn a_request_is_answered() {
    let uri = endpoint("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let answer = send(&Client::new(&options()).unwrap(), &uri).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]));
}

#[tokio::test]
async fn calls_that_follow_each_other_take_one_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    let client = Client::new(&options()).unwrap();
    let serving = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            read_request(&mut socket).await;
            socket
                .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                .await
                .unwrap();
        }
    };
    let calling = async {
        for _ in 0..3 {
            assert_eq!(send(&client, &uri).await.unwrap().status, 204);
        }
    };
    tokio::join!(serving, calling);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_nothing_more() {
    let uri =
        endpoint("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
    let answer = send(&Client::new(&options()).unwrap(), &uri).await.unwrap();
    assert_eq!(answer.status, 302);
}

#[tokio::test]
async fn long_broken_and_missing_answers_are_failures() {
    let long = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\nok";
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n41\r\n\
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n0\r\n\r\n";
    for (answer, failure) in [
        (long, Failure::TooLarge),
        (chunks, Failure::TooLarge),
        ("", Failure::Closed),
        ("ok\r\n\r\n", Failure::Closed),
    ] {
        let uri = endpoint(answer).await;
        let result = send(&Client::new(&options()).unwrap(), &uri).await;
        assert_eq!(result, Err(failure), "{answer}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let result = send(&Client::new(&options()).unwrap(), &uri).await;
    assert_eq!(result, Err(Failure::Connect));
}

/// While one call waits for its answer there is no place for another; when it has waited long enough there is.
#[tokio::test]
async fn calls_are_bounded_in_number_and_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    let client = Client::new(&options()).unwrap();
    let slot = client.slot().await.unwrap();
    let slow = slot.send(post(&uri), Duration::from_millis(300));
    let meanwhile = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        let result = send(&client, &uri).await;
        (socket, result)
    };
    let (slow, (mut socket, meanwhile)) = tokio::join!(slow, meanwhile);
    assert_eq!((slow, meanwhile), (Err(Failure::Timeout), Err(Failure::Busy)));
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).await.unwrap();
    let uri = endpoint("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(
        client
            .slot()
            .await
            .unwrap()
            .send(post(&uri), SOON)
            .await
            .unwrap()
            .status,
        204
    );
}

/// A TLS handshake that is never answered ends too, and nothing is left waiting.
#[tokio::test]
async fn a_silent_tls_endpoint_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("https://{}/", listener.local_addr().unwrap());
    let authority = Authority::new();
    let options = ClientOptions {
        connect_timeout: Duration::from_millis(200),
        ..authority.options()
    };
    let client = Client::new(&options).unwrap();
    let accepted = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut hello = Vec::new();
        socket.read_to_end(&mut hello).await.unwrap();
        hello.len()
    };
    let (result, hello) = tokio::join!(send(&client, &uri), accepted);
    assert_eq!(result, Err(Failure::Connect));
    assert!(hello > 0);
}

struct Authority {
    certificate: rcgen::CertifiedKey<rcgen::KeyPair>,
    file: tempfile::NamedTempFile,
}

impl Authority {
    fn new() -> Self {
        let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), certificate.cert.pem()).unwrap();
        Self { certificate, file }
    }

    fn options(&self) -> ClientOptions {
        ClientOptions {
            https: true,
            ca_file: Some(self.file.path().to_owned()),
            ..options()
        }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let key = PrivateKeyDer::Pkcs8(self.certificate.signing_key.serialize_der().into());
        let provider = Arc::new(crate::connector::provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.cert.der().clone()], key)
            .unwrap();
        Arc::new(config).into()
    }
}

async fn answer_over_tls(acceptor: TlsAcceptor, socket: TcpStream) {
    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut S) {
        read_request(socket).await;
        socket
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .await
            .unwrap();
    }
    // A client that does not trust us hangs up here.
    if let Ok(mut socket) = acceptor.accept(socket).await {
        answer(&mut socket).await;
    }
}

#[tokio::test]
async fn https_needs_a_certificate_from_an_authority_that_is_trusted_and_for_the_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (own, other) = (Authority::new(), Authority::new());
    let acceptor = own.acceptor();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer_over_tls(acceptor.clone(), socket));
        }
    });
    let localhost = format!("https://localhost:{port}/");
    let client = Client::new(&own.options()).unwrap();
    assert_eq!(send(&client, &localhost).await.unwrap().status, 204);
    let by_address = send(&client, &format!("https://127.0.0.1:{port}/")).await;
    assert_eq!(by_address, Err(Failure::Connect));
    let stranger = Client::new(&other.options()).unwrap();
    assert_eq!(send(&stranger, &localhost).await, Err(Failure::Connect));
}

#[test]
fn a_file_without_certificates_is_refused_by_its_name() {
    let authority = Authority::new();
    std::fs::write(authority.file.path(), "nothing").unwrap();
    let error = Client::new(&authority.options()).unwrap_err().to_string();
    assert!(
        error.contains(authority.file.path().to_str().unwrap()) && error.contains("no certificate"),
        "{error}"
    );
}

#[test]
fn only_http_with_a_host_and_without_a_password_is_called() {
    for uri in ["http://a/", "https://a:8443/x?y=1", "http://[::1]:80"] {
        assert!(is_callable(&uri.parse().unwrap()), "{uri}");
    }
    for uri in ["ftp://a/", "/path", "a:80", "http://user:secret@a/"] {
        assert!(!is_callable(&uri.parse().unwrap()), "{uri}");
    }
}
