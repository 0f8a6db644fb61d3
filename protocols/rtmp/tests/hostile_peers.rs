//! Peers that send anything: no panic, no unbounded memory, and either an error or a session that
//! goes on.

mod support;

use bytes::BytesMut;
use proptest::prelude::*;
use spillway_amf::Value;
use spillway_rtmp::chunk::ChunkWriter;
use spillway_rtmp::command::Command;
use spillway_rtmp::limits::ReaderLimits;
use spillway_rtmp::message::{UserControl, type_id};
use spillway_rtmp::session::{
    ClientMode, ClientOptions, ClientSession, PlayRefusal, PublishRefusal, ServerEvent, ServerOptions,
    ServerSession, SessionError,
};
use support::{HANDSHAKE_BYTES, call, connect, handshake_bytes, publish, set_data_frame};

/// Small bounds, so that a test reaches them.
fn options() -> ServerOptions {
    ServerOptions {
        limits: ReaderLimits {
            max_partial_bytes: 1 << 20,
            ..ReaderLimits::default()
        },
        out_limit_bytes: 16 * 1024,
        held_media_bytes: 64 * 1024,
        ..ServerOptions::default()
    }
}

/// How the server's owner answers requests.
#[derive(Debug, Clone, Copy)]
enum Policy {
    Accept,
    Refuse,
    Wait,
}

/// Drives a session as the gateway does; `cut` is the length of a read.
fn serve(bytes: &[u8], cut: usize, policy: Policy, drain: bool) -> Result<usize, SessionError> {
    let mut session = ServerSession::new(options());
    let mut media_bytes = 0;
    for mut piece in bytes.chunks(cut.max(1)) {
        loop {
            let event = session.read(&mut piece);
            assert!(
                session.bytes_held() <= (2 << 20) + 64 * 1024,
                "{}",
                session.bytes_held()
            );
            assert!(session.output().len() <= 16 * 1024 + HANDSHAKE_BYTES + 4096);
            let Some(event) = event? else { break };
            match (event, policy) {
                (ServerEvent::Media { buf, .. }, _) => media_bytes += buf.len(),
                (ServerEvent::PublishRequested { request, .. }, Policy::Accept) => {
                    session.accept_publish(request)?;
                }
                (ServerEvent::PlayRequested { request, .. }, Policy::Accept) => {
                    session.accept_play(request)?;
                }
                (ServerEvent::PublishRequested { request, .. }, Policy::Refuse) => {
                    session.refuse_publish(request, PublishRefusal::BadName, "no")?;
                }
                (ServerEvent::PlayRequested { request, .. }, Policy::Refuse) => {
                    session.refuse_play(request, PlayRefusal::Failed, "no")?;
                }
                _ => {}
            }
        }
        if drain {
            session.output().clear();
        }
    }
    Ok(media_bytes)
}

/// A lively dialogue: most commands there are, with media between them.
fn dialogue() -> Vec<u8> {
    let mut bytes = BytesMut::from(&handshake_bytes()[..]);
    let mut writer = ChunkWriter::new();
    let mut write = |csid: u32, type_id: u8, msid: u32, body: &[u8]| {
        writer
            .write(&mut bytes, csid, 16_777_300, type_id, msid, body)
            .expect("written");
    };
    let commands = [
        (0, connect("live/inst?token=a")),
        (0, call("releaseStream", 2.0, "key")),
        (0, call("FCPublish", 3.0, "key")),
        (0, Command::new("createStream", 4.0, [])),
        (1, publish(5.0, "key")),
        (0, Command::new("createStream", 6.0, [])),
        (
            2,
            Command::new("play", 7.0, ["other".into(), Value::Number(-2000.0)]),
        ),
        (2, Command::new("pause", 0.0, [true.into(), Value::Number(1.0)])),
        (2, call("receiveAudio", 0.0, true)),
        (2, Command::new("closeStream", 0.0, [])),
        (0, call("FCUnpublish", 8.0, "key")),
        (1, publish(9.0, "key")),
        (0, call("deleteStream", 10.0, 1.0)),
        (2, call("play", 11.0, "other")),
        (2, call("receiveVideo", 0.0, false)),
        (2, Command::new("pause", 0.0, [true.into(), Value::Number(1.0)])),
        (2, Command::new("closeStream", 0.0, [])),
    ];
    for (message_stream_id, command) in commands {
        write(3, type_id::COMMAND, message_stream_id, &command.to_body());
        write(4, type_id::DATA, 1, &set_data_frame());
        write(6, type_id::VIDEO, 1, &[0x17; 300]);
        write(
            2,
            type_id::USER_CONTROL,
            0,
            &UserControl::PingRequest(1).to_body(),
        );
        write(2, type_id::WINDOW_ACK_SIZE, 0, &[0, 0, 0, 1]);
        let sub = [8, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0xAF, 1, 0, 0, 0, 13];
        write(5, type_id::AGGREGATE, 1, &[&sub[..], &sub].concat());
    }
    bytes.to_vec()
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Accept), Just(Policy::Refuse), Just(Policy::Wait)]
}

#[test]
fn the_dialogue_is_sound_before_it_is_damaged() {
    for policy in [Policy::Accept, Policy::Refuse, Policy::Wait] {
        for cut in [1, 7, 4096] {
            serve(&dialogue(), cut, policy, true).expect("a sound dialogue");
        }
    }
    assert!(serve(&dialogue(), 4096, Policy::Accept, true).expect("sound") > 2_000);
}

#[test]
fn every_single_byte_of_the_dialogue_may_be_wrong() {
    let sound = dialogue();
    for at in HANDSHAKE_BYTES..sound.len() {
        for flip in [0x01, 0x80, 0xFF] {
            let mut damaged = sound.clone();
            damaged[at] ^= flip;
            let _ = serve(&damaged, 4096, Policy::Accept, true);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..8000), cut in 1usize..5000) {
        let _ = serve(&bytes, cut, Policy::Accept, true);
    }

    #[test]
    fn any_bytes_after_the_handshake(
        bytes in proptest::collection::vec(any::<u8>(), 0..4000),
        cut in 1usize..5000,
        policy in policy(),
    ) {
        let _ = serve(&[handshake_bytes(), bytes].concat(), cut, policy, true);
    }

    #[test]
    fn a_damaged_dialogue(
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0u8..3), 1..30),
        cut in 1usize..5000,
        policy in policy(),
        drain in any::<bool>(),
    ) {
        let mut bytes = dialogue();
        for (index, byte, edit) in edits {
            let at = HANDSHAKE_BYTES + index.index(bytes.len() - HANDSHAKE_BYTES);
            match edit {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => { bytes.remove(at); }
            }
        }
        let _ = serve(&bytes, cut, policy, drain);
    }

    #[test]
    fn messages_of_any_type_with_any_body(
        messages in proptest::collection::vec(
            (0u8..24, 0u32..3, any::<u32>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..40),
        policy in policy(),
    ) {
        let mut bytes = BytesMut::from(&handshake_bytes()[..]);
        let mut writer = ChunkWriter::new();
        for (type_id, message_stream_id, time, body) in &messages {
            writer.write(&mut bytes, 3, *time, *type_id, *message_stream_id, body).expect("written");
        }
        let _ = serve(&bytes, 4096, policy, true);
    }

    #[test]
    fn commands_in_any_order(
        order in proptest::collection::vec((0usize..16, 0u32..4, 0u32..3), 0..60),
        policy in policy(),
    ) {
        const NAMES: [&str; 16] = [
            "createStream", "publish", "play", "closeStream", "deleteStream", "FCPublish", "FCUnpublish",
            "releaseStream", "pause", "seek", "receiveAudio", "receiveVideo", "play2", "FCSubscribe", "_result", "x",
        ];
        let mut bytes = BytesMut::from(&handshake_bytes()[..]);
        let mut writer = ChunkWriter::new();
        let body = connect("live").to_body();
        writer.write(&mut bytes, 3, 0, type_id::COMMAND, 0, &body).expect("written");
        for (name, message_stream_id, argument) in &order {
            let argument = match argument {
                0 => Value::from("key"),
                1 => Value::Number(f64::from(*message_stream_id)),
                _ => Value::Boolean(false),
            };
            let body = Command::new(NAMES[*name], 1.0, [argument]).to_body();
            writer.write(&mut bytes, 3, 0, type_id::COMMAND, *message_stream_id, &body).expect("written");
            writer.write(&mut bytes, 4, 0, type_id::AUDIO, *message_stream_id, &[0xAF, 1]).expect("written");
        }
        prop_assert!(serve(&bytes, 4096, policy, true).is_ok());
    }

    #[test]
    fn a_client_survives_any_server(
        bytes in proptest::collection::vec(any::<u8>(), 0..6000),
        cut in 1usize..5000,
        digest in any::<bool>(),
        shake in any::<bool>(),
    ) {
        for mode in [ClientMode::Publish, ClientMode::Play] {
            let mut options = ClientOptions::new("h", "live", "key", mode);
            options.digest = digest;
            let mut client = ClientSession::new(options);
            let bytes = if shake { [handshake_bytes(), bytes.clone()].concat() } else { bytes.clone() };
            'pieces: for mut piece in bytes.chunks(cut) {
                loop {
                    match client.read(&mut piece) {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => break 'pieces,
                    }
                }
                client.output().clear();
            }
        }
    }
}

/// Depth, counts and lengths that only exist on the wire.
#[test]
fn amf_bombs_in_commands_are_cheap() {
    let name = |name: &str| [&[2, 0, name.len() as u8][..], name.as_bytes(), &[0; 9]].concat();
    let nested = [name("connect"), [3, 0, 1, b'a'].repeat(15_000)].concat();
    let array = [name("connect"), vec![0x0A, 0xFF, 0xFF, 0xFF, 0xFF]].concat();
    let ecma = [name("publish"), vec![8, 0xFF, 0xFF, 0xFF, 0xFF, 0, 1, b'x', 5]].concat();
    let long_string = [name("play"), vec![5, 0x0C, 0xFF, 0xFF, 0xFF, 0xFF, b'x']].concat();
    let many = [name("createStream"), vec![5; 60_000]].concat();
    let bodies = [
        (nested, true),
        (array, false),
        (ecma, false),
        (long_string, false),
        (many, true),
    ];
    for (body, over_limit) in bodies {
        let mut bytes = BytesMut::from(&handshake_bytes()[..]);
        let mut writer = ChunkWriter::new();
        writer
            .write(&mut bytes, 3, 0, type_id::COMMAND, 0, &connect("live").to_body())
            .expect("written");
        writer
            .write(&mut bytes, 3, 0, type_id::COMMAND, 1, &body)
            .expect("written");
        let result = serve(&bytes, 65_536, Policy::Accept, true);
        let refused = matches!(result, Err(SessionError::PeerCommandTooComplex { .. }));
        assert_eq!(refused, over_limit, "{result:?}");
    }
}

#[test]
fn media_ahead_of_an_answer_that_never_comes_is_bounded() {
    let mut bytes = BytesMut::from(&handshake_bytes()[..]);
    let mut writer = ChunkWriter::new();
    for command in [connect("live"), publish(2.0, "key")] {
        writer
            .write(&mut bytes, 3, 0, type_id::COMMAND, 0, &command.to_body())
            .expect("written");
    }
    for time in 0..2_000 {
        writer
            .write(&mut bytes, 6, time, type_id::VIDEO, 1, &[0x27; 1_000])
            .expect("written");
        writer
            .write(&mut bytes, 4, time, type_id::AUDIO, 1, &[])
            .expect("written");
        writer
            .write(&mut bytes, 4, time, type_id::DATA, 1, &[2, 0, 0])
            .expect("written");
    }
    assert_eq!(serve(&bytes, 65_536, Policy::Wait, true), Ok(0));
}
