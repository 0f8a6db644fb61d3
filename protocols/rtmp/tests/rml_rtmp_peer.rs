//! An implementation we did not write, `rml_rtmp`, as the other side: its client publishes to and
//! plays from our server, and our client publishes to and plays from its server.

use bytes::Bytes;
use rml_rtmp::handshake::{Handshake, HandshakeProcessResult, PeerType};
use rml_rtmp::sessions as rml;
use rml_rtmp::time::RtmpTimestamp;
use spillway_rtmp::chunk::{ChunkHead, OUT_CHUNK_SIZE};
use spillway_rtmp::command::code;
use spillway_rtmp::session::{
    ClientEvent, ClientMode, ClientOptions, ClientSession, HEAD_ROOM, MediaKind, PlayRefusal, PublishRefusal,
    ServerEvent, ServerOptions, ServerSession,
};

fn video(length: usize) -> Bytes {
    let bytes: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
    Bytes::from([&[0x27, 1, 0, 0, 0][..], &bytes].concat())
}

fn feed(session: &mut ServerSession, mut input: &[u8]) -> Vec<ServerEvent> {
    let mut events = Vec::new();
    while let Some(event) = session.read(&mut input).expect("server") {
        events.push(event);
    }
    events
}

/// Their client in front of our server.
struct TheirClient {
    client: rml::ClientSession,
    server: ServerSession,
    client_events: Vec<rml::ClientSessionEvent>,
    server_events: Vec<ServerEvent>,
}

impl TheirClient {
    fn connected() -> Self {
        let mut handshake = Handshake::new(PeerType::Client);
        let mut server = ServerSession::new(ServerOptions {
            random_seed: 3,
            ..ServerOptions::default()
        });
        feed(
            &mut server,
            &handshake.generate_outbound_p0_and_p1().expect("C0 and C1"),
        );
        let answer = server.output().split();
        let Ok(HandshakeProcessResult::Completed {
            response_bytes,
            remaining_bytes,
        }) = handshake.process_bytes(&answer)
        else {
            panic!("they take our S0, S1 and S2");
        };
        assert!(remaining_bytes.is_empty());
        assert_eq!(feed(&mut server, &response_bytes), [ServerEvent::HandshakeDone]);

        let (client, first) = rml::ClientSession::new(rml::ClientSessionConfig::new()).expect("session");
        let mut peer = Self {
            client,
            server,
            client_events: Vec::new(),
            server_events: Vec::new(),
        };
        peer.run(first);
        let connect = peer
            .client
            .request_connection("live".to_owned())
            .expect("connect");
        peer.run(vec![connect]);
        assert_eq!(
            peer.client_events,
            [rml::ClientSessionEvent::ConnectionRequestAccepted]
        );
        assert!(matches!(&peer.server_events[..], [ServerEvent::Connected(info)] if info.app == "live"));
        peer.client_events.clear();
        peer.server_events.clear();
        peer
    }

    fn take(&mut self, results: Vec<rml::ClientSessionResult>) {
        for result in results {
            match result {
                rml::ClientSessionResult::OutboundResponse(packet) => {
                    let events = feed(&mut self.server, &packet.bytes);
                    self.server_events.extend(events);
                }
                rml::ClientSessionResult::RaisedEvent(event) => self.client_events.push(event),
                rml::ClientSessionResult::UnhandleableMessageReceived(_) => {}
            }
        }
    }

    /// Carries bytes both ways until our server has nothing more to say.
    fn run(&mut self, results: Vec<rml::ClientSessionResult>) {
        self.take(results);
        loop {
            let output = self.server.output().split();
            if output.is_empty() {
                return;
            }
            let results = self.client.handle_input(&output).expect("their client");
            self.take(results);
        }
    }

    fn request_publish(&mut self) {
        let publish = self
            .client
            .request_publishing("key".to_owned(), rml::PublishRequestType::Live);
        let publish = publish.expect("publish");
        self.run(vec![publish]);
    }
}

#[test]
fn their_client_publishes_to_our_server() {
    let mut peer = TheirClient::connected();
    peer.request_publish();
    let Some(ServerEvent::PublishRequested { request, stream }) = peer.server_events.pop() else {
        panic!("a request")
    };
    assert_eq!(stream.path, "live/key");
    assert_eq!(peer.server.accept_publish(request), Ok(true));
    peer.run(Vec::new());
    assert!(
        peer.client_events
            .contains(&rml::ClientSessionEvent::PublishRequestAccepted)
    );

    let frames = [
        (0, video(10)),
        (40, video(5_000)),
        (0x0100_0000, video(100_000)),
        (0x0100_0028, video(0)),
    ];
    for (time, frame) in &frames {
        let sent = peer
            .client
            .publish_video_data(frame.clone(), RtmpTimestamp::new(*time), false);
        peer.run(vec![sent.expect("video")]);
    }
    let received: Vec<(u32, Vec<u8>)> = peer
        .server_events
        .drain(..)
        .map(|event| match event {
            ServerEvent::Media {
                kind: MediaKind::Video,
                timestamp_ms,
                buf,
            } => (timestamp_ms, buf[HEAD_ROOM..].to_vec()),
            other => panic!("{other:?}"),
        })
        .collect();
    let sent: Vec<(u32, Vec<u8>)> = frames
        .iter()
        .map(|(time, frame)| (*time, frame.to_vec()))
        .collect();
    assert!(received == sent);

    let stop = peer.client.stop_publishing().expect("stop");
    peer.run(stop);
    assert_eq!(peer.server_events, [ServerEvent::PublishEnded]);
}

#[test]
fn their_client_is_refused_by_our_server() {
    let mut peer = TheirClient::connected();
    peer.request_publish();
    let Some(ServerEvent::PublishRequested { request, .. }) = peer.server_events.pop() else {
        panic!("a request")
    };
    peer.server
        .refuse_publish(request, PublishRefusal::Denied, "Wrong token.")
        .expect("sent");
    peer.run(Vec::new());
    let code = code::PUBLISH_DENIED.to_owned();
    assert!(
        peer.client_events
            .contains(&rml::ClientSessionEvent::UnhandleableOnStatusCode { code })
    );

    let mut peer = TheirClient::connected();
    let play = peer.client.request_playback("none".to_owned()).expect("play");
    peer.run(vec![play]);
    let Some(ServerEvent::PlayRequested { request, .. }) = peer.server_events.pop() else {
        panic!("a request")
    };
    peer.server
        .refuse_play(request, PlayRefusal::StreamNotFound, "Not live.")
        .expect("sent");
    peer.run(Vec::new());
    let code = code::PLAY_STREAM_NOT_FOUND.to_owned();
    assert!(
        peer.client_events
            .contains(&rml::ClientSessionEvent::UnhandleableOnStatusCode { code })
    );
}

#[test]
fn their_client_plays_from_our_server() {
    let mut peer = TheirClient::connected();
    let play = peer.client.request_playback("key".to_owned()).expect("play");
    peer.run(vec![play]);
    let Some(ServerEvent::PlayRequested { request, stream }) = peer.server_events.pop() else {
        panic!("a request")
    };
    assert_eq!(stream.path, "live/key");
    assert_eq!(peer.server.accept_play(request), Ok(true));
    peer.run(Vec::new());
    assert!(
        peer.client_events
            .contains(&rml::ClientSessionEvent::PlaybackRequestAccepted)
    );
    peer.client_events.clear();

    for (time, frame) in [(7, video(10)), (0x0200_0000, video(150_000))] {
        let length = u32::try_from(frame.len()).expect("short");
        let head = ChunkHead::render(6, time, 9, peer.server.play_stream_id(), length);
        let mut bytes = head.head().to_vec();
        for (index, slice) in frame.chunks(OUT_CHUNK_SIZE as usize).enumerate() {
            if index > 0 {
                bytes.extend_from_slice(head.continuation());
            }
            bytes.extend_from_slice(slice);
        }
        let results = peer.client.handle_input(&bytes).expect("their client");
        peer.take(results);
        let timestamp = RtmpTimestamp::new(time);
        let expected = rml::ClientSessionEvent::VideoDataReceived {
            timestamp,
            data: frame,
        };
        assert!(peer.client_events.pop() == Some(expected));
    }
    let stop = peer.client.stop_playback().expect("stop");
    peer.run(stop);
    assert_eq!(peer.server_events.last(), Some(&ServerEvent::PlayEnded));
}

/// Our client in front of their server, which accepts everything.
struct TheirServer {
    client: ClientSession,
    server: rml::ServerSession,
    client_events: Vec<ClientEvent>,
    server_events: Vec<rml::ServerSessionEvent>,
}

impl TheirServer {
    fn new(mode: ClientMode) -> Self {
        let mut client = ClientSession::new(ClientOptions::new("localhost:1935", "live", "key", mode));
        let mut handshake = Handshake::new(PeerType::Server);
        let first = client.output().split();
        let Ok(HandshakeProcessResult::InProgress { response_bytes }) = handshake.process_bytes(&first)
        else {
            panic!("they take our C0 and C1");
        };
        let mut input = &response_bytes[..];
        assert_eq!(client.read(&mut input), Ok(None));
        let second = client.output().split();
        let Ok(HandshakeProcessResult::Completed { remaining_bytes, .. }) = handshake.process_bytes(&second)
        else {
            panic!("they take our C2");
        };

        let (server, first) = rml::ServerSession::new(rml::ServerSessionConfig::new()).expect("session");
        let mut peer = Self {
            client,
            server,
            client_events: Vec::new(),
            server_events: Vec::new(),
        };
        peer.take(first);
        peer.server_input(&remaining_bytes);
        peer.run();
        peer
    }

    fn server_input(&mut self, bytes: &[u8]) {
        let results = self.server.handle_input(bytes).expect("their server");
        self.take(results);
    }

    fn take(&mut self, results: Vec<rml::ServerSessionResult>) {
        for result in results {
            match result {
                rml::ServerSessionResult::OutboundResponse(packet) => {
                    let mut input = &packet.bytes[..];
                    while let Some(event) = self.client.read(&mut input).expect("client") {
                        self.client_events.push(event);
                    }
                }
                rml::ServerSessionResult::RaisedEvent(event) => {
                    let request = match &event {
                        rml::ServerSessionEvent::ConnectionRequested { request_id, .. }
                        | rml::ServerSessionEvent::ReleaseStreamRequested { request_id, .. }
                        | rml::ServerSessionEvent::PublishStreamRequested { request_id, .. }
                        | rml::ServerSessionEvent::PlayStreamRequested { request_id, .. } => {
                            Some(*request_id)
                        }
                        _ => None,
                    };
                    self.server_events.push(event);
                    if let Some(Ok(results)) = request.map(|id| self.server.accept_request(id)) {
                        self.take(results);
                    }
                }
                rml::ServerSessionResult::UnhandleableMessageReceived(_) => {}
            }
        }
    }

    fn run(&mut self) {
        loop {
            let output = self.client.output().split();
            if output.is_empty() {
                return;
            }
            self.server_input(&output);
        }
    }
}

#[test]
fn our_client_publishes_to_their_server() {
    let mut peer = TheirServer::new(ClientMode::Publish);
    assert_eq!(peer.client_events, [ClientEvent::Ready]);
    peer.server_events.clear();

    let frames = [(0, video(10)), (40, video(5_000)), (0x0100_0000, video(100_000))];
    for (time, frame) in &frames {
        peer.client
            .write_media(MediaKind::Video, *time, frame)
            .expect("written");
        peer.run();
    }
    let received: Vec<(u32, Bytes)> = peer
        .server_events
        .drain(..)
        .map(|event| match event {
            rml::ServerSessionEvent::VideoDataReceived {
                app_name,
                stream_key,
                data,
                timestamp,
            } => {
                assert_eq!((app_name.as_str(), stream_key.as_str()), ("live", "key"));
                (timestamp.value, data)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(received == frames);

    peer.client.stop().expect("stopped");
    peer.run();
    let finished = |event: &rml::ServerSessionEvent| matches!(event, rml::ServerSessionEvent::PublishStreamFinished { stream_key, .. } if stream_key == "key");
    assert!(peer.server_events.iter().any(finished));
}

#[test]
fn our_client_plays_from_their_server() {
    let mut peer = TheirServer::new(ClientMode::Play);
    assert_eq!(peer.client_events, [ClientEvent::Ready]);
    peer.client_events.clear();
    let id = peer
        .server_events
        .iter()
        .find_map(|event| match event {
            rml::ServerSessionEvent::PlayStreamRequested {
                stream_id,
                stream_key,
                ..
            } => {
                assert_eq!(stream_key, "key");
                Some(*stream_id)
            }
            _ => None,
        })
        .expect("a play request");
    for (time, frame) in [(7, video(10)), (40, video(9_000)), (0x0200_0000, video(150_000))] {
        let packet = peer
            .server
            .send_video_data(id, frame.clone(), RtmpTimestamp::new(time), false);
        peer.take(vec![rml::ServerSessionResult::OutboundResponse(
            packet.expect("packet"),
        )]);
        let Some(ClientEvent::Media {
            kind: MediaKind::Video,
            timestamp_ms,
            buf,
        }) = peer.client_events.pop()
        else {
            panic!("media")
        };
        assert!((timestamp_ms, &buf[HEAD_ROOM..]) == (time, &frame[..]));
    }
    let packet = peer.server.finish_playing(id).expect("packet");
    peer.take(vec![rml::ServerSessionResult::OutboundResponse(packet)]);
    assert_eq!(peer.client_events, [ClientEvent::Ended]);
}
