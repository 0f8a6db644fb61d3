//! Our client against our server over memory, however the bytes between them are cut.

use proptest::prelude::*;
use spillway_rtmp::chunk::{ChunkHead, OUT_CHUNK_SIZE};
use spillway_rtmp::command::code;
use spillway_rtmp::session::{
    ClientEvent, ClientMode, ClientOptions, ClientSession, HEAD_ROOM, MediaKind, PlayRefusal, PublishRefusal,
    ServerEvent, ServerOptions, ServerSession, SessionError,
};

type Media = (MediaKind, u32, Vec<u8>);

/// How the bytes of one direction are cut: the lengths of the pieces, used in turn.
#[derive(Debug, Clone)]
struct Cuts {
    lengths: Vec<usize>,
    next: usize,
}

impl Cuts {
    fn new(lengths: Vec<usize>) -> Self {
        Self { lengths, next: 0 }
    }

    fn take<'a>(&mut self, bytes: &mut &'a [u8]) -> &'a [u8] {
        let length = self.lengths[self.next % self.lengths.len()].clamp(1, bytes.len());
        self.next += 1;
        let (piece, rest) = bytes.split_at(length);
        *bytes = rest;
        piece
    }
}

struct Pair {
    client: ClientSession,
    server: ServerSession,
    cuts: Cuts,
    client_events: Vec<ClientEvent>,
    server_events: Vec<ServerEvent>,
}

impl Pair {
    fn new(mode: ClientMode, digest: bool, cuts: Cuts) -> Self {
        let mut options = ClientOptions::new("localhost:1935", "live", "key?token=a/b", mode);
        options.digest = digest;
        options.random_seed = 1;
        Self {
            client: ClientSession::new(options),
            server: ServerSession::new(ServerOptions {
                random_seed: 2,
                ..ServerOptions::default()
            }),
            cuts,
            client_events: Vec::new(),
            server_events: Vec::new(),
        }
    }

    /// Carries bytes both ways until neither side has any. Stops early at a request, so that the
    /// test can answer it with bytes still under way.
    fn run(&mut self) {
        loop {
            let up = self.client.output().split();
            let down = self.server.output().split();
            if up.is_empty() && down.is_empty() {
                return;
            }
            let mut rest = &up[..];
            while !rest.is_empty() {
                let mut piece = self.cuts.take(&mut rest);
                while let Some(event) = self.server.read(&mut piece).expect("server") {
                    self.server_events.push(event);
                }
                assert!(piece.is_empty());
            }
            self.deliver(&down);
        }
    }

    fn deliver(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut piece = self.cuts.take(&mut rest);
            while let Some(event) = self.client.read(&mut piece).expect("client") {
                self.client_events.push(event);
            }
            assert!(piece.is_empty());
        }
    }

    fn path(&self) -> &str {
        match self.server_events.last() {
            Some(
                ServerEvent::PublishRequested { stream, .. } | ServerEvent::PlayRequested { stream, .. },
            ) => {
                assert_eq!(stream.param("token"), Some("a/b"));
                &stream.path
            }
            other => panic!("no request but {other:?}"),
        }
    }

    fn accept(&mut self) {
        assert_eq!(self.path(), "live/key");
        let accepted = match self.server_events.pop() {
            Some(ServerEvent::PublishRequested { request, .. }) => self.server.accept_publish(request),
            Some(ServerEvent::PlayRequested { request, .. }) => self.server.accept_play(request),
            _ => panic!("path() has looked"),
        };
        assert_eq!(accepted, Ok(true));
        self.run();
        assert_eq!(self.client_events, [ClientEvent::Ready]);
        self.client_events.clear();
    }

    fn media_at_server(&mut self) -> Vec<Media> {
        let mut media = Vec::new();
        self.server_events.retain(|event| match event {
            ServerEvent::Media {
                kind,
                timestamp_ms,
                buf,
            } => {
                media.push((*kind, *timestamp_ms, buf[HEAD_ROOM..].to_vec()));
                false
            }
            _ => true,
        });
        media
    }
}

/// What the gateway sends to a player: shared heads and slices of the body.
fn framed(message_stream_id: u32, (kind, timestamp_ms, body): &Media) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("short");
    let head = ChunkHead::render(6, *timestamp_ms, kind.type_id(), message_stream_id, length);
    let mut bytes = head.head().to_vec();
    for (index, slice) in body.chunks(OUT_CHUNK_SIZE as usize).enumerate() {
        if index > 0 {
            bytes.extend_from_slice(head.continuation());
        }
        bytes.extend_from_slice(slice);
    }
    bytes
}

fn some_media() -> Vec<Media> {
    use MediaKind::{Audio, Data, Video};
    vec![
        (Video, 0, vec![0x17, 0, 0, 0, 0]),
        (Audio, 0, vec![0xAF, 0, 0x12, 0x10]),
        (Video, 0xFF_FFFF, vec![0x17; 70_000]),
        (Audio, 0xFF_FFFE, vec![]),
        (Data, 0x100_0000, vec![2, 0, 1, b'x']),
        (Video, u32::MAX, vec![0x27; 300]),
        (Video, 5, vec![0x27; 140_000]),
    ]
}

fn publishes_and_stops(digest: bool, cuts: Cuts, media: &[Media]) {
    let mut pair = Pair::new(ClientMode::Publish, digest, cuts);
    pair.run();
    pair.accept();
    for (kind, timestamp_ms, body) in media {
        pair.client
            .write_media(*kind, *timestamp_ms, body)
            .expect("written");
    }
    pair.run();
    assert_eq!(pair.media_at_server(), media);
    pair.client.stop().expect("stopped");
    pair.run();
    assert_eq!(pair.server_events.last(), Some(&ServerEvent::PublishEnded));
    assert!(matches!(&pair.server_events[..], [
        ServerEvent::HandshakeDone,
        ServerEvent::Connected(info),
        ServerEvent::PublishEnded
    ] if info.enhanced && !info.reconnect && info.app == "live"));
}

fn plays_to_the_end(digest: bool, cuts: Cuts, media: &[Media]) {
    let mut pair = Pair::new(ClientMode::Play, digest, cuts);
    pair.run();
    pair.accept();
    let id = pair.server.play_stream_id();
    for message in media {
        pair.deliver(&framed(id, message));
    }
    let expected: Vec<ClientEvent> = media
        .iter()
        .map(|(kind, timestamp_ms, body)| ClientEvent::Media {
            kind: *kind,
            timestamp_ms: *timestamp_ms,
            buf: [&[0; HEAD_ROOM][..], body].concat(),
        })
        .collect();
    assert!(pair.client_events == expected);
    pair.client_events.clear();
    pair.server.end_play("The publisher has gone.").expect("sent");
    pair.run();
    assert_eq!(pair.client_events, [ClientEvent::Ended]);
}

#[test]
fn at_every_byte() {
    for digest in [false, true] {
        publishes_and_stops(digest, Cuts::new(vec![1]), &some_media());
        plays_to_the_end(digest, Cuts::new(vec![1]), &some_media());
    }
}

#[test]
fn in_one_piece() {
    for digest in [false, true] {
        publishes_and_stops(digest, Cuts::new(vec![usize::MAX]), &some_media());
        plays_to_the_end(digest, Cuts::new(vec![usize::MAX]), &some_media());
    }
}

fn any_media() -> impl Strategy<Value = Vec<Media>> {
    let kind = prop_oneof![
        Just(MediaKind::Audio),
        Just(MediaKind::Video),
        Just(MediaKind::Data),
        Just(MediaKind::DataAmf3)
    ];
    let body = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        (60_000usize..70_000).prop_map(|length| vec![0x27; length])
    ];
    proptest::collection::vec((kind, any::<u32>(), body), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn cut_anywhere_a_publish_arrives_whole(
        lengths in proptest::collection::vec(1usize..4000, 1..20),
        digest in any::<bool>(),
        media in any_media(),
    ) {
        publishes_and_stops(digest, Cuts::new(lengths), &media);
    }

    #[test]
    fn cut_anywhere_a_play_arrives_whole(
        lengths in proptest::collection::vec(1usize..4000, 1..20),
        digest in any::<bool>(),
        media in any_media(),
    ) {
        plays_to_the_end(digest, Cuts::new(lengths), &media);
    }
}

#[test]
fn metadata_is_published_as_a_data_frame() {
    let mut pair = Pair::new(ClientMode::Publish, false, Cuts::new(vec![100]));
    pair.run();
    pair.accept();
    let body = b"\x02\x00\x0AonMetaData\x08\x00\x00\x00\x00\x00\x00\x09";
    pair.client
        .write_media(MediaKind::Data, 0, body)
        .expect("written");
    pair.run();
    let expected = [&b"\x02\x00\x0D@setDataFrame"[..], body].concat();
    assert_eq!(pair.media_at_server(), [(MediaKind::Data, 0, expected)]);
}

#[test]
fn a_refusal_reaches_the_client_with_its_words() {
    let mut pair = Pair::new(ClientMode::Publish, false, Cuts::new(vec![100]));
    pair.run();
    let Some(ServerEvent::PublishRequested { request, .. }) = pair.server_events.pop() else {
        panic!("a request")
    };
    pair.server
        .refuse_publish(request, PublishRefusal::Denied, "Wrong token.")
        .expect("sent");
    pair.run();
    let refused = |code: &str, description: &str| ClientEvent::Refused {
        code: code.to_owned(),
        description: description.to_owned(),
    };
    assert_eq!(
        pair.client_events,
        [refused(code::PUBLISH_DENIED, "Wrong token.")]
    );
    let written = pair.client.write_media(MediaKind::Audio, 0, &[0xAF]);
    assert_eq!(written, Err(SessionError::LocalNotPublishing));

    let mut pair = Pair::new(ClientMode::Play, false, Cuts::new(vec![100]));
    pair.run();
    let Some(ServerEvent::PlayRequested { request, .. }) = pair.server_events.pop() else {
        panic!("a request")
    };
    pair.server
        .refuse_play(request, PlayRefusal::StreamNotFound, "Not live.")
        .expect("sent");
    pair.run();
    assert_eq!(
        pair.client_events,
        [refused(code::PLAY_STREAM_NOT_FOUND, "Not live.")]
    );
}

#[test]
fn a_publisher_that_is_replaced_is_told_so() {
    let mut pair = Pair::new(ClientMode::Publish, false, Cuts::new(vec![100]));
    pair.run();
    pair.accept();
    pair.server
        .end_publish(code::PUBLISH_BAD_NAME, "Another encoder took over.")
        .expect("sent");
    pair.run();
    assert!(
        matches!(&pair.client_events[..], [ClientEvent::Refused { code, .. }] if code == code::PUBLISH_BAD_NAME)
    );
}

#[test]
fn output_that_nobody_takes_is_bounded() {
    let mut pair = Pair::new(ClientMode::Publish, false, Cuts::new(vec![100]));
    pair.run();
    pair.accept();
    let body = vec![0x27; 1 << 20];
    let written = (0..100)
        .map(|_| pair.client.write_media(MediaKind::Video, 0, &body))
        .find(Result::is_err);
    assert!(matches!(written, Some(Err(SessionError::LocalOutputFull { .. }))));
    assert!(pair.client.output().len() <= 32 << 20);
    pair.client.stop().expect("there is room for a goodbye");
}
