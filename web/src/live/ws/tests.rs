use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use spillway_flv::ws;
use spillway_hub::{EndReason, Hub, Protocol, SessionInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::super::tests::listen;
use super::outbound::Outbox;
use crate::testing::{Source, hub, key};

type Player = WebSocketStream<TcpStream>;

async fn connect(hub: &Hub, path: &str) -> Player {
    let address = listen(hub).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (player, response) = client_async(format!("ws://{address}{path}"), stream)
        .await
        .unwrap();
    assert_eq!(response.status(), 101);
    player
}

async fn next(player: &mut Player) -> Message {
    timeout(Duration::from_secs(5), player.next())
        .await
        .unwrap()
        .unwrap()
        .unwrap()
}

/// Reads past media to the close frame; returns its code.
async fn close_code(player: &mut Player) -> u16 {
    loop {
        if let Message::Close(frame) = next(player).await {
            return frame.unwrap().code.into();
        }
    }
}

fn ends(hub: &Hub, reason: EndReason) -> u64 {
    hub.stats().viewer_ends(Protocol::Ws, reason)
}

async fn until_ended(hub: &Hub, reason: EndReason) {
    for _ in 0..500 {
        if ends(hub, reason) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no session has ended with {reason:?}");
}

#[tokio::test]
async fn media_comes_as_binary_messages_each_a_tag() {
    let hub = hub();
    let mut source = Source::start(&hub, "live/cam");
    let mut player = connect(&hub, "/live/cam.flv").await;
    let header = next(&mut player).await.into_data();
    assert_eq!(&header[..], b"FLV\x01\x05\0\0\0\x09\0\0\0\0");
    source.gop(50);
    for _ in 0..60 {
        let Message::Binary(tag) = next(&mut player).await else {
            panic!("not binary")
        };
        let body = usize::from(tag[2]) << 8 | usize::from(tag[3]);
        assert_eq!(tag.len(), 11 + body + 4);
        assert_eq!(tag[tag.len() - 4..], ((11 + body) as u32).to_be_bytes());
    }
}

#[tokio::test]
async fn pings_are_answered_between_tags_and_a_close_is_echoed() {
    let hub = hub();
    let mut source = Source::start(&hub, "live/cam");
    let mut player = connect(&hub, "/live/cam.flv").await;
    player.send(Message::Ping("are you there?".into())).await.unwrap();
    source.gop(20);
    loop {
        match next(&mut player).await {
            Message::Pong(payload) => break assert_eq!(&payload[..], b"are you there?"),
            Message::Binary(_) => {}
            other => panic!("{other:?}"),
        }
    }
    player
        .send(Message::text("players say odd things"))
        .await
        .unwrap();
    player.close(None).await.unwrap();
    while let Some(Ok(_)) = timeout(Duration::from_secs(5), player.next()).await.unwrap() {}
    until_ended(&hub, EndReason::Client).await;
}

#[tokio::test]
async fn a_player_may_come_first_and_is_answered_while_it_waits() {
    let hub = hub();
    let mut player = connect(&hub, "/live/cam.flv").await;
    player.send(Message::Ping("early".into())).await.unwrap();
    assert!(matches!(next(&mut player).await, Message::Pong(_)));
    let _source = Source::start(&hub, "live/cam");
    assert!(next(&mut player).await.into_data().starts_with(b"FLV"));
}

#[tokio::test]
async fn the_close_code_says_why() {
    let hub = hub();
    assert_eq!(
        close_code(&mut connect(&hub, "/live/nobody.flv").await).await,
        4404
    );
    assert_eq!(ends(&hub, EndReason::NotFound), 1);
    let source = Source::start(&hub, "live/cam");
    let mut player = connect(&hub, "/live/cam.flv").await;
    next(&mut player).await;
    drop(source);
    assert_eq!(close_code(&mut player).await, 1000);
    let _source = Source::start(&hub, "live/cam");
    let mut player = connect(&hub, "/live/cam.flv").await;
    next(&mut player).await;
    hub.shutdown();
    assert_eq!(close_code(&mut player).await, 1001);
    assert_eq!(ends(&hub, EndReason::StreamEnded), 1);
    assert_eq!(ends(&hub, EndReason::Shutdown), 1);
}

#[tokio::test]
async fn only_media_counts_as_bytes_sent() {
    let hub = hub();
    let source = Source::start(&hub, "live/cam");
    let mut player = connect(&hub, "/live/cam.flv").await;
    player.send(Message::Ping("not media".into())).await.unwrap();
    let (mut media, mut pongs) = (0, 0);
    assert!(next(&mut player).await.into_data().starts_with(b"FLV"));
    let mut source = Some(source);
    loop {
        match next(&mut player).await {
            Message::Binary(tag) => media += ws::frame_head(tag.len()).1 + tag.len(),
            Message::Pong(_) => pongs += 1,
            _ => break,
        }
        if pongs == 1 {
            source.take();
        }
    }
    assert_eq!(pongs, 1);
    until_ended(&hub, EndReason::StreamEnded).await;
    assert_eq!(hub.stats().bytes_out[Protocol::Ws.index()].get(), media as u64);
}

#[tokio::test]
async fn a_player_that_breaks_the_protocol_is_told_and_closed() {
    let hub = hub();
    let _source = Source::start(&hub, "live/cam");
    for (frame, code) in [
        (&[0x81, 0x01, b'x'][..], 1002_u16),
        (&[0x82, 0xFF, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3, 4], 1009),
    ] {
        let mut client = TcpStream::connect(listen(&hub).await).await.unwrap();
        let request = "GET /live/cam.flv HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n\
            Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        client.write_all(request.as_bytes()).await.unwrap();
        client.write_all(frame).await.unwrap();
        let mut answer = Vec::new();
        timeout(Duration::from_secs(5), client.read_to_end(&mut answer))
            .await
            .unwrap()
            .unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 101 "));
        let close = [&[0x88, 2][..], &code.to_be_bytes()].concat();
        assert!(answer.ends_with(&close), "{code}");
    }
}

#[tokio::test]
async fn any_split_of_the_writes_gives_the_same_bytes() {
    let hub = hub();
    let mut source = Source::start(&hub, "live/cam");
    source.gop(40);
    let info = SessionInfo::new(Protocol::Ws, ([127, 0, 0, 1], 1).into());
    let mut viewer = hub.attach(&key("live/cam"), info).await.unwrap();
    let (mut batch, mut next) = (Vec::new(), Vec::new());
    while batch.len() < 50 {
        viewer.next(&mut next).await.unwrap();
        batch.append(&mut next);
    }
    let messages: Vec<Vec<u8>> = batch
        .iter()
        .map(|frame| [frame.ws_head(), &frame.tag()[..]].concat())
        .collect();
    let media = messages.concat();
    let ends: Vec<usize> = messages
        .iter()
        .scan(0, |end, message| {
            *end += message.len();
            Some(*end)
        })
        .collect();
    for step in (1..=300).step_by(13) {
        let mut outbox = Outbox::new();
        outbox.media.refill().clone_from(&batch);
        let mut wire: Vec<u8> = Vec::new();
        let mut media_bytes = 0;
        while !outbox.is_empty() {
            let written = outbox.write_with(|slices| {
                let mut taken: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                assert!(!taken.is_empty());
                taken.truncate(step);
                wire.extend(&taken);
                Ok(taken.len())
            });
            media_bytes += written.unwrap() as usize;
            if wire.len() == step {
                outbox.pong(b"!");
            }
        }
        let pong = wire.windows(3).position(|w| w == [0x8A, 1, b'!']).unwrap();
        let end_of_begun = ends.iter().find(|end| **end >= step);
        assert_eq!(Some(&pong), end_of_begun, "step {step}");
        assert_eq!(media_bytes, media.len());
        wire.drain(pong..pong + 3);
        assert!(wire == media, "step {step}");
    }
}
