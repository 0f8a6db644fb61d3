//! What a server session does whoever its client is: order, routing, acknowledgements, bounds.

mod support;

use bytes::BytesMut;
use spillway_amf::Value;
use spillway_rtmp::command::{Command, code};
use spillway_rtmp::message::{UserControl, type_id};
use spillway_rtmp::session::{
    MediaKind, PublishRefusal, ServerEvent, ServerOptions, ServerSession, SessionError,
};
use support::{Client, call, connect, handshake_bytes, publish};

const AUDIO_FRAME: &[u8] = &[0xAF, 1, 0xDE];

#[test]
fn the_whole_dialogue_may_come_in_one_piece() {
    let mut bytes = BytesMut::from(&handshake_bytes()[..]);
    let mut writer = spillway_rtmp::chunk::ChunkWriter::new();
    for (message_stream_id, command) in [
        (0, connect("live")),
        (0, Command::new("createStream", 2.0, [])),
        (1, publish(3.0, "key")),
    ] {
        writer
            .write(
                &mut bytes,
                3,
                0,
                type_id::COMMAND,
                message_stream_id,
                &command.to_body(),
            )
            .expect("written");
    }
    let mut session = ServerSession::new(ServerOptions::default());
    let mut input = &bytes[..];
    let mut events = Vec::new();
    while let Some(event) = session.read(&mut input).expect("read") {
        events.push(event);
    }
    use ServerEvent::{Connected, HandshakeDone, PublishRequested};
    assert!(matches!(
        &events[..],
        [HandshakeDone, Connected(_), PublishRequested { .. }]
    ));
}

#[test]
fn unknown_commands_get_an_empty_result_and_never_an_error() {
    let mut client = Client::connected("live");
    for name in [
        "checkBandwidth",
        "getUserPrivilege",
        "setPlaylist",
        "_onbwcheck",
        "x",
    ] {
        client.send(0, &Command::new(name, 9.0, [Value::Null]));
        assert_eq!(client.replies(), ["_result(9)"], "{name}");
        client.send(0, &Command::new(name, 0.0, []));
        assert!(client.replies().is_empty(), "{name}");
    }
}

#[test]
fn answers_of_the_client_are_not_answered() {
    let mut client = Client::connected("live");
    for name in ["_result", "_error", "onStatus"] {
        client.send(0, &Command::new(name, 9.0, [Value::Null]));
    }
    client.user_control(UserControl::PingResponse(1));
    client.user_control(UserControl::StreamBegin(1));
    assert!(client.replies().is_empty());
}

#[test]
fn pings_are_answered_with_their_own_time() {
    let mut client = Client::connected("live");
    client.user_control(UserControl::PingRequest(0xDEAD_BEEF));
    assert_eq!(client.replies(), ["PingResponse(3735928559)"]);
    client.session.ping(77).expect("sent");
    assert_eq!(client.replies(), ["PingRequest(77)"]);
}

#[test]
fn odd_control_messages_are_passed_over() {
    let mut client = Client::publishing();
    for (type_id, body) in [
        (type_id::WINDOW_ACK_SIZE, &[][..]),
        (type_id::WINDOW_ACK_SIZE, &[0, 0, 0, 0]),
        (type_id::WINDOW_ACK_SIZE, &[0, 0, 1]),
        (type_id::SET_PEER_BANDWIDTH, &[0, 0, 0, 1]),
        (type_id::SET_PEER_BANDWIDTH, &[0, 0, 0, 1, 9]),
        (type_id::ACKNOWLEDGEMENT, &[]),
        (type_id::USER_CONTROL, &[0]),
        (type_id::USER_CONTROL, &[0, 6, 1]),
        (type_id::USER_CONTROL, &[0, 3, 0, 0, 0, 1, 0, 0, 0, 1]),
        (type_id::COMMAND, &[]),
        (type_id::COMMAND_AMF3, &[0]),
    ] {
        client.message(5, type_id, 7, body);
    }
    assert!(client.replies().is_empty());
    client.message(4, type_id::AUDIO, 1, AUDIO_FRAME);
    assert_eq!(client.media().len(), 1);
}

#[test]
fn received_bytes_are_acknowledged_at_half_the_window() {
    let mut client = Client::publishing();
    client.message(2, type_id::WINDOW_ACK_SIZE, 0, &100_000u32.to_be_bytes());
    client.chunk_size(65_536);
    let mut acknowledgements = 0;
    for _ in 0..20 {
        client.message(6, type_id::VIDEO, 1, &[0x27; 10_000]);
        acknowledgements += client.replies().len();
    }
    assert!((3..=4).contains(&acknowledgements), "{acknowledgements}");
}

#[test]
fn a_tiny_window_does_not_make_an_acknowledgement_of_every_message() {
    let mut client = Client::publishing();
    client.message(2, type_id::WINDOW_ACK_SIZE, 0, &1u32.to_be_bytes());
    for _ in 0..100 {
        client.message(4, type_id::AUDIO, 1, AUDIO_FRAME);
    }
    assert!(client.replies().is_empty());
}

#[test]
fn media_sent_ahead_of_the_answer_is_given_out_after_it() {
    let mut client = Client::connected("live");
    client.send(0, &Command::new("createStream", 2.0, []));
    client.send(1, &publish(3.0, "key"));
    let requested = client.events.len();
    client.message_at(4, 1, type_id::AUDIO, 1, &[0xAF, 0, 0x12, 0x10]);
    client.message_at(6, 2, type_id::VIDEO, 1, &[0x17, 0, 0, 0, 0]);
    assert_eq!(
        client.events.len(),
        requested,
        "held until the request is answered"
    );
    client.accept();
    client.message_at(4, 3, type_id::AUDIO, 1, AUDIO_FRAME);
    let times: Vec<u32> = client.media().iter().map(|(_, time, _)| *time).collect();
    assert_eq!(times, [1, 2, 3]);
    assert_eq!(client.session.dropped_messages(), 0);
}

#[test]
fn media_held_for_a_refused_publish_is_forgotten() {
    let mut client = Client::connected("live");
    client.send(0, &Command::new("createStream", 2.0, []));
    client.send(1, &publish(3.0, "key"));
    let (request, _) = client.request();
    client.events.clear();
    client.message(4, type_id::AUDIO, 1, AUDIO_FRAME);
    assert_eq!(
        client
            .session
            .refuse_publish(request, PublishRefusal::Denied, "no"),
        Ok(true)
    );
    client.replies();
    client.message(4, type_id::AUDIO, 1, AUDIO_FRAME);
    client.send(1, &publish(4.0, "key"));
    client.accept();
    assert!(client.events.is_empty());
    assert_eq!(client.session.bytes_held(), 0);
}

#[test]
fn refusals_carry_code_and_description_on_the_publishing_stream() {
    for (refusal, line) in [
        (PublishRefusal::Denied, "onStatus(0)@1 NetStream.Publish.Denied"),
        (PublishRefusal::BadName, "onStatus(0)@1 NetStream.Publish.BadName"),
    ] {
        let mut client = Client::connected("live");
        client.send(0, &Command::new("createStream", 2.0, []));
        client.replies();
        client.send(1, &publish(3.0, "key"));
        let (request, _) = client.request();
        client
            .session
            .refuse_publish(request, refusal, "Ask the operator for a key.")
            .expect("sent");
        let output = client.session.output().to_vec();
        assert!(output.windows(5).any(|window| window == b"error"));
        assert!(
            output
                .windows(27)
                .any(|window| window == b"Ask the operator for a key.")
        );
        assert_eq!(client.replies(), [line]);
    }
}

#[test]
fn a_publish_under_the_same_name_restarts_and_under_another_is_refused() {
    let mut client = Client::publishing();
    client.send(1, &publish(4.0, "key"));
    assert_eq!(client.events.remove(0), ServerEvent::PublishEnded);
    client.accept();
    client.replies();

    // The same name on another stream.
    client.send(0, &Command::new("createStream", 5.0, []));
    client.replies();
    client.send(2, &publish(6.0, "key"));
    assert_eq!(client.events.remove(0), ServerEvent::PublishEnded);
    client.accept();
    assert_eq!(
        client.replies(),
        ["StreamBegin(2)", "onStatus(0)@2 NetStream.Publish.Start"]
    );

    client.send(1, &publish(7.0, "second"));
    assert!(client.events.is_empty());
    assert_eq!(client.replies(), ["onStatus(0)@1 NetStream.Publish.BadName"]);
    client.message(4, type_id::AUDIO, 2, AUDIO_FRAME);
    assert_eq!(client.media().len(), 1);
}

#[test]
fn a_connection_that_plays_or_waits_to_play_cannot_publish() {
    let waiting = || {
        let mut client = Client::connected("live");
        client.send(1, &call("play", 3.0, "key"));
        client.events.clear();
        client
    };
    for mut client in [Client::playing(), waiting()] {
        for message_stream_id in [1, 2] {
            client.send(message_stream_id, &publish(4.0, "other"));
            assert!(client.events.is_empty());
            let output = client.session.output().to_vec();
            let advice = b"stop playing first, or publish on a second connection";
            assert!(output.windows(advice.len()).any(|window| window == advice));
            assert_eq!(
                client.replies(),
                [format!(
                    "onStatus(0)@{message_stream_id} NetStream.Publish.Denied"
                )]
            );
        }
        client.send(1, &Command::new("closeStream", 0.0, []));
        assert_eq!(client.events, [ServerEvent::PlayEnded]);
        client.send(2, &publish(5.0, "other"));
        assert_eq!(client.accept(), "live/other");
    }
}

#[test]
fn only_the_publish_that_is_meant_is_ended() {
    let mut client = Client::publishing();
    client.send(0, &call("FCUnpublish", 0.0, "other"));
    client.send(0, &call("deleteStream", 0.0, 7.0));
    client.send(7, &Command::new("closeStream", 0.0, []));
    assert!(client.events.is_empty());
    client.send(0, &call("FCUnpublish", 0.0, "flv:key?token=a"));
    assert_eq!(client.events, [ServerEvent::PublishEnded]);
}

#[test]
fn close_stream_ends_a_publish_and_leaves_the_stream() {
    let mut client = Client::publishing();
    client.send(1, &Command::new("closeStream", 0.0, []));
    assert_eq!(client.events, [ServerEvent::PublishEnded]);
    assert_eq!(client.replies(), ["onStatus(0)@1 NetStream.Unpublish.Success"]);
    client.events.clear();
    client.send(1, &publish(0.0, "key"));
    assert_eq!(client.accept(), "live/key");
}

#[test]
fn the_server_may_end_a_publish() {
    for (code, line) in [
        (
            code::UNPUBLISH_SUCCESS,
            "onStatus(0)@1 NetStream.Unpublish.Success",
        ),
        (code::PUBLISH_BAD_NAME, "onStatus(0)@1 NetStream.Publish.BadName"),
    ] {
        let mut client = Client::publishing();
        client
            .session
            .end_publish(code, "Another encoder took over.")
            .expect("sent");
        assert_eq!(client.replies(), [line]);
        client.message(4, type_id::AUDIO, 1, AUDIO_FRAME);
        client.send(0, &call("deleteStream", 0.0, 1.0));
        assert!(client.events.is_empty());
        assert_eq!(client.session.dropped_messages(), 1);
    }
}

#[test]
fn media_goes_to_the_publish_on_any_message_stream() {
    let mut client = Client::publishing();
    for message_stream_id in [0, 1, 2, 9] {
        client.message(4, type_id::DATA, message_stream_id, &[2, 0, 1, b'x']);
    }
    assert_eq!(client.media().len(), 4);
}

#[test]
fn media_without_a_publish_is_counted_and_dropped() {
    let mut client = Client::connected("live");
    client.message(4, type_id::AUDIO, 1, AUDIO_FRAME);
    assert!(client.events.is_empty());
    assert_eq!(client.session.dropped_messages(), 1);
}

#[test]
fn empty_media_messages_are_passed_on() {
    let mut client = Client::publishing();
    client.message_at(4, 5, type_id::AUDIO, 1, &[]);
    assert_eq!(client.media(), [(MediaKind::Audio, 5, vec![])]);
}

#[test]
fn an_aggregate_comes_out_as_its_messages() {
    let mut client = Client::publishing();
    let sub = |type_id: u8, time: u8, body: &[u8]| {
        let head = [type_id, 0, 0, body.len() as u8, 0, 0, time, 0, 0, 0, 0];
        [&head[..], body, &[0, 0, 0, 11 + body.len() as u8]].concat()
    };
    let body = [sub(8, 50, &[0xAF, 1]), sub(20, 51, &[1]), sub(9, 73, &[0x27, 1])].concat();
    client.message_at(6, 100, type_id::AGGREGATE, 1, &body);
    client.message_at(4, 200, type_id::AUDIO, 1, &[0xAF, 1]);
    assert_eq!(
        client.media(),
        [
            (MediaKind::Audio, 100, vec![0xAF, 1]),
            (MediaKind::Video, 123, vec![0x27, 1]),
            (MediaKind::Audio, 200, vec![0xAF, 1])
        ]
    );
}

#[test]
fn a_connection_has_a_bounded_number_of_streams() {
    let mut client = Client::connected("live");
    for transaction_id in 2..10u32 {
        client.send(0, &Command::new("createStream", transaction_id.into(), []));
    }
    assert_eq!(client.replies().last().map(String::as_str), Some("_result(9) 8"));
    client.send(0, &Command::new("createStream", 10.0, []));
    assert_eq!(client.replies(), ["_error(10) NetConnection.Call.Failed"]);
    client.send(55, &publish(11.0, "key"));
    assert_eq!(client.replies(), ["onStatus(0)@55 NetStream.Publish.BadName"]);
    assert!(client.events.is_empty());
}

#[test]
fn a_client_must_connect_once_before_it_publishes() {
    let mut bytes = BytesMut::new();
    let mut writer = spillway_rtmp::chunk::ChunkWriter::new();
    writer
        .write(
            &mut bytes,
            3,
            0,
            type_id::COMMAND,
            1,
            &publish(2.0, "key").to_body(),
        )
        .expect("written");
    let mut client = Client::new();
    assert_eq!(
        client.feed(&bytes),
        Err(SessionError::PeerNotConnected { command: "publish" })
    );

    bytes.clear();
    writer
        .write(&mut bytes, 3, 0, type_id::COMMAND, 0, &connect("live").to_body())
        .expect("written");
    let mut client = Client::connected("live");
    assert_eq!(client.feed(&bytes), Err(SessionError::PeerConnectedTwice));
}

#[test]
fn a_command_of_absurd_length_ends_the_session() {
    let mut client = Client::connected("live");
    client.chunk_size(65_536);
    let mut bytes = BytesMut::new();
    let mut writer = spillway_rtmp::chunk::ChunkWriter::new();
    writer.set_chunk_size(65_536);
    writer
        .write(&mut bytes, 3, 0, type_id::COMMAND, 0, &vec![2; 70_000])
        .expect("written");
    assert_eq!(
        client.feed(&bytes),
        Err(SessionError::PeerCommandTooLong {
            length: 70_000,
            limit: 65_536
        })
    );
}

#[test]
fn a_client_that_does_not_read_its_answers_is_cut_off_and_pings_go_first() {
    let options = ServerOptions {
        out_limit_bytes: 16 * 1024,
        ..ServerOptions::default()
    };
    let mut client = Client::with_options(options);
    client.send(0, &connect("live"));
    client.replies();

    // Pings alone fill half of the bound and no more.
    let mut writer = spillway_rtmp::chunk::ChunkWriter::new();
    let mut pings = BytesMut::new();
    for _ in 0..10_000 {
        let body = UserControl::PingRequest(1).to_body();
        writer
            .write(&mut pings, 2, 0, type_id::USER_CONTROL, 0, &body)
            .expect("written");
    }
    client.feed(&pings).expect("pings never end a session");
    let held = client.session.output().len();
    assert!((8 * 1024..9 * 1024).contains(&held), "{held}");
    client.session.ping(1).expect("left out");
    assert_eq!(client.session.output().len(), held);

    let mut commands = BytesMut::new();
    for _ in 0..1_000 {
        let body = Command::new("createStream", 2.0, []).to_body();
        writer
            .write(&mut commands, 3, 0, type_id::COMMAND, 0, &body)
            .expect("written");
    }
    let error = client.feed(&commands).expect_err("too many answers");
    assert!(matches!(
        error,
        SessionError::PeerNotReading {
            limit_bytes: 16_384,
            ..
        }
    ));
    assert_eq!(error.reason(), "not_reading");
    assert!(client.session.output().len() <= 17 * 1024);
}
