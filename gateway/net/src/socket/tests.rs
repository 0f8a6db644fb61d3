use std::future::poll_fn;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::Door;
use crate::tls::{Certificates, Origin, TlsUse, provider};

/// Takes any certificate.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

async fn pair() -> (TlsStream<TcpStream>, Socket) {
    let certificates = Certificates::load(Origin::SelfSigned(vec!["localhost".to_owned()]), None).unwrap();
    let door = Door {
        tls: Some((Arc::new(certificates), TlsUse::Rtmps)),
        ..Door::open("test")
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = tokio::spawn(async move {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone))
            .with_no_client_auth();
        let tcp = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await
            .unwrap()
    });
    let (tcp, peer) = listener.accept().await.unwrap();
    let (entry, _) = door.admit(tcp, peer).await.unwrap();
    (client.await.unwrap(), entry.into())
}

async fn read(socket: &mut Socket, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        poll_fn(|cx| socket.poll_read_ready(cx)).await?;
        let Socket::Tls(tls) = socket else { panic!("TLS") };
        match tls.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

#[tokio::test]
async fn what_the_peer_says_is_read_to_its_end_however_small_the_buffer() {
    let (mut client, mut socket) = pair().await;
    let sent: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
    let expected = sent.clone();
    let writer = tokio::spawn(async move {
        client.write_all(&sent).await.unwrap();
        client.shutdown().await.unwrap();
        client
    });
    let (mut received, mut buffer) = (Vec::new(), [0; 1000]);
    let reading = async {
        loop {
            match read(&mut socket, &mut buffer).await.unwrap() {
                0 => return,
                count => received.extend_from_slice(&buffer[..count]),
            }
        }
    };
    timeout(Duration::from_secs(10), reading).await.unwrap();
    assert!(received == expected);
    writer.await.unwrap();
}

#[tokio::test]
async fn a_peer_that_takes_nothing_is_felt_and_loses_nothing() {
    let (mut client, mut socket) = pair().await;
    let piece: Vec<u8> = (0..30_000_u32).map(|i| i as u8).collect();
    let mut written = 0;
    loop {
        let slices = [IoSlice::new(&piece[..10]), IoSlice::new(&piece[10..])];
        match socket.try_write_vectored(&slices) {
            Ok(count) if count == piece.len() => written += count,
            Ok(count) => {
                assert_eq!(
                    count, 0,
                    "a piece smaller than the buffer is taken whole or not at all"
                );
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                break;
            }
        }
    }
    assert_eq!(socket.try_flush().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let reader = tokio::spawn(async move {
        let mut received = vec![0; written];
        client.read_exact(&mut received).await.unwrap();
        (client, received)
    });
    while let Err(error) = socket.try_flush() {
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        poll_fn(|cx| socket.poll_write_ready(cx)).await.unwrap();
    }
    let (mut client, received) = timeout(Duration::from_secs(10), reader).await.unwrap().unwrap();
    assert!(received.chunks(piece.len()).all(|chunk| chunk == piece));
    socket.hang_up();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0, "a proper end");
}
