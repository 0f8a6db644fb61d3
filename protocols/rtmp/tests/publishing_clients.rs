//! The dialogues of the encoders people use, as captured or read from their source, and what the
//! server must answer at each step.

mod support;

use spillway_amf::{Value, amf0};
use spillway_rtmp::command::Command;
use spillway_rtmp::message::type_id;
use spillway_rtmp::session::{MediaKind, ServerEvent};
use support::{Client, call, connect, connect_with, publish, set_data_frame};

const CONNECT_REPLIES: [&str; 3] = [
    "WindowAckSize 2500000",
    "SetPeerBandwidth 2500000 2",
    "_result(1) NetConnection.Connect.Success",
];
const VIDEO_HEADER: &[u8] = &[0x17, 0, 0, 0, 0, 1, 0x64];
const VIDEO_FRAME: &[u8] = &[0x27, 1, 0, 0, 40, 0, 0, 0, 1, 0x41];
const AUDIO_HEADER: &[u8] = &[0xAF, 0, 0x12, 0x10];
const AUDIO_FRAME: &[u8] = &[0xAF, 1, 0xDE];

#[test]
fn ffmpeg_publishes_in_one_burst_and_leaves_in_order() {
    let mut client = Client::new();
    client.send(
        0,
        &connect_with(
            "live",
            [("type", "nonprivate".into()), ("flashVer", "FMLE/3.0".into())],
        ),
    );
    assert_eq!(client.replies(), CONNECT_REPLIES);
    assert!(matches!(&client.events[..], [ServerEvent::Connected(info)] if !info.enhanced));
    client.events.clear();

    // It echoes the server's chunk size as its own.
    client.chunk_size(65_536);
    client.send(0, &call("releaseStream", 2.0, "key"));
    client.send(0, &call("FCPublish", 3.0, "key"));
    client.send(0, &Command::new("createStream", 4.0, []));
    let replies = client.replies();
    assert_eq!(
        replies,
        [
            "_result(2)",
            "_result(3)",
            "onFCPublish(3) NetStream.Publish.Start",
            "_result(4) 1"
        ]
    );

    client.message(8, type_id::COMMAND, 1, &publish(5.0, "key").to_body());
    assert_eq!(client.accept(), "live/key");
    assert_eq!(
        client.replies(),
        ["StreamBegin(1)", "onStatus(0)@1 NetStream.Publish.Start"]
    );

    client.message(4, type_id::DATA, 1, &set_data_frame());
    client.message(6, type_id::VIDEO, 1, VIDEO_HEADER);
    client.message(4, type_id::AUDIO, 1, AUDIO_HEADER);
    client.message_at(6, 40, type_id::VIDEO, 1, VIDEO_FRAME);
    client.message_at(6, 80, type_id::VIDEO, 1, &[0x17, 2, 0, 0, 0]);
    let media = client.media();
    assert_eq!(media.len(), 5);
    assert_eq!(media[0], (MediaKind::Data, 0, set_data_frame()));
    assert_eq!(media[3], (MediaKind::Video, 40, VIDEO_FRAME.to_vec()));

    client.send(0, &call("FCUnpublish", 6.0, "key"));
    client.send(0, &call("deleteStream", 7.0, 1.0));
    assert_eq!(client.events, [ServerEvent::PublishEnded]);
    assert_eq!(
        client.replies(),
        [
            "_result(6)",
            "onFCUnpublish(6) NetStream.Unpublish.Success",
            "onStatus(0)@1 NetStream.Unpublish.Success"
        ]
    );
}

#[test]
fn obs_sets_its_chunk_size_first_and_sends_everything_on_chunk_stream_4() {
    let mut client = Client::new();
    client.chunk_size(4096);
    client.send(0, &connect_with("live", [("type", "nonprivate".into())]));
    assert_eq!(client.replies(), CONNECT_REPLIES);
    client.send(0, &call("releaseStream", 2.0, "key"));
    client.send(0, &call("FCPublish", 3.0, "key"));
    client.send(0, &Command::new("createStream", 4.0, []));
    client.replies();
    client.send(1, &publish(5.0, "key"));
    client.accept();
    client.events.clear();

    client.message(4, type_id::DATA, 1, &set_data_frame());
    client.message(4, type_id::AUDIO, 1, AUDIO_HEADER);
    client.message(4, type_id::VIDEO, 1, VIDEO_HEADER);
    client.message_at(4, 23, type_id::AUDIO, 1, AUDIO_FRAME);
    client.message_at(4, 40, type_id::VIDEO, 1, &[VIDEO_FRAME, &[7; 9000]].concat());
    // An enhanced end of sequence: five bytes and no time.
    client.message_at(4, 0, type_id::VIDEO, 1, b"\xA2hvc1");
    let kinds: Vec<MediaKind> = client.media().iter().map(|(kind, ..)| *kind).collect();
    use MediaKind::{Audio, Data, Video};
    assert_eq!(kinds, [Data, Audio, Video, Audio, Video, Video]);

    client.send(0, &call("FCUnpublish", 6.0, "key"));
    client.send(0, &call("deleteStream", 7.0, 1.0));
    assert_eq!(client.events, [ServerEvent::PublishEnded]);
}

#[test]
fn gstreamer_uses_transaction_0_and_changes_its_chunk_size_after_publish() {
    let mut client = Client::new();
    client.send(0, &connect("live"));
    client.message(2, type_id::WINDOW_ACK_SIZE, 0, &2_500_000u32.to_be_bytes());
    client.send(0, &call("releaseStream", 0.0, "key"));
    client.send(0, &call("FCPublish", 0.0, "key"));
    client.send(0, &Command::new("createStream", 2.0, []));
    assert_eq!(
        client.replies()[3..],
        ["onFCPublish(0) NetStream.Publish.Start", "_result(2) 1"],
        "a call with transaction 0 gets no result"
    );
    client.send(1, &publish(0.0, "key"));
    client.accept();
    assert_eq!(
        client.replies(),
        ["StreamBegin(1)", "onStatus(0)@1 NetStream.Publish.Start"]
    );

    client.chunk_size(128);
    client.events.clear();
    client.message(4, type_id::DATA, 1, &set_data_frame());
    client.message(5, type_id::AUDIO, 1, AUDIO_HEADER);
    client.message(6, type_id::VIDEO, 1, &[9; 1000]);
    assert_eq!(client.media().len(), 3);

    client.send(0, &call("FCUnpublish", 0.0, "key"));
    client.send(0, &call("deleteStream", 0.0, 1.0));
    assert_eq!(client.events, [ServerEvent::PublishEnded]);
}

#[test]
fn fmle_publishes_again_on_the_same_connection() {
    let mut client = Client::publishing();
    for round in 0..3 {
        client.send(0, &call("FCUnpublish", 10.0, "key"));
        client.send(0, &call("deleteStream", 0.0, 1.0));
        assert_eq!(client.events, [ServerEvent::PublishEnded], "round {round}");
        client.events.clear();
        client.replies();

        client.send(0, &call("releaseStream", 11.0, "key"));
        client.send(0, &call("FCPublish", 12.0, "key"));
        client.send(0, &Command::new("createStream", 13.0, []));
        assert_eq!(client.replies().last().map(String::as_str), Some("_result(13) 1"));
        client.send(1, &publish(0.0, "key"));
        assert_eq!(client.accept(), "live/key");
        client.replies();
        client.message(4, type_id::AUDIO, 1, AUDIO_FRAME);
        assert_eq!(client.media().len(), 1);
    }
}

#[test]
fn wirecast_reads_the_level_before_the_code_on_the_publishing_stream() {
    let mut client = Client::connected("live");
    client.send(0, &Command::new("createStream", 2.0, []));
    client.replies();
    client.send(1, &publish(3.0, "key"));
    let (request, _) = client.request();
    client.session.accept_publish(request).expect("accepted");
    let output = client.session.output().split();
    let find = |text: &[u8]| output.windows(text.len()).position(|window| window == text);
    let [level, code, description] = [&b"level"[..], b"code", b"description"].map(find);
    assert!(level < code && code < description && level.is_some());
}

#[test]
fn an_appliance_that_announces_after_create_stream_gets_its_on_fc_publish() {
    let mut client = Client::connected("live");
    client.send(0, &Command::new("createStream", 2.0, []));
    client.send(0, &call("FCPublish", 3.0, "key"));
    assert_eq!(
        client.replies(),
        [
            "_result(2) 1",
            "_result(3)",
            "onFCPublish(3) NetStream.Publish.Start"
        ]
    );
}

#[test]
fn haivision_checks_bandwidth_and_pings_before_it_publishes() {
    use spillway_rtmp::message::UserControl;
    let mut client = Client::connected("live");
    client.send(0, &Command::new("_checkbw", 2.0, []));
    client.user_control(UserControl::PingRequest(4711));
    client.send(0, &Command::new("createStream", 3.0, []));
    assert_eq!(
        client.replies(),
        ["_result(2)", "PingResponse(4711)", "_result(3) 1"]
    );
}

#[test]
fn a_camera_publishes_without_create_stream_on_stream_0() {
    let mut client = Client::connected("live");
    client.send(0, &publish(2.0, "key"));
    assert_eq!(client.accept(), "live/key");
    assert_eq!(
        client.replies(),
        ["StreamBegin(1)", "onStatus(0) NetStream.Publish.Start"]
    );
    for message_stream_id in [0, 1] {
        client.message(4, type_id::AUDIO, message_stream_id, AUDIO_FRAME);
        assert_eq!(client.media().len(), 1);
    }
}

#[test]
fn a_publish_with_nothing_but_a_name_or_not_even_that_is_a_request() {
    for (arguments, path) in [
        (vec![Value::Null, "key".into()], "live/inst/key"),
        (vec![], "live/inst"),
    ] {
        let mut client = Client::connected("live/inst");
        client.send(0, &Command::new("createStream", 2.0, []));
        client.send(
            1,
            &Command {
                name: "publish".to_owned(),
                transaction_id: 3.0,
                arguments,
            },
        );
        assert_eq!(client.accept(), path);
    }
}

#[test]
fn connect_is_understood_in_every_shape_seen() {
    // Properties in an ECMA array, quotes around the URL, no end marker, a string behind it.
    let mut body = Vec::new();
    amf0::write(&"connect".into(), &mut body);
    amf0::write(&1.0.into(), &mut body);
    let unterminated = &[3, 0, 3, b'a', b'p', b'p', 2, 0, 4, b'l', b'i', b'v', b'e'];
    let mut shapes = vec![[&body[..], unterminated].concat()];
    let properties = vec![("tcUrl".to_owned(), "'rtmp://h/live'".into())];
    shapes.push(Command::with_object("connect", 1.0, Value::EcmaArray(properties), ["S".into()]).to_body());
    let odd = Value::object([
        ("app", Value::from("/live/")),
        ("tcUrl", Value::Null),
        ("nested", Value::object([("x", Value::Undefined)])),
        (
            "list",
            Value::StrictArray(vec![Value::Date {
                unix_ms: 0.0,
                zone_min: 0,
            }]),
        ),
    ]);
    shapes.push(Command::with_object("connect", 1.0, odd, []).to_body());
    for shape in shapes {
        let mut client = Client::new();
        client.message(3, type_id::COMMAND, 0, &shape);
        assert_eq!(client.replies(), CONNECT_REPLIES);
        client.send(1, &publish(2.0, "key"));
        assert_eq!(client.accept(), "live/key");
    }
}

#[test]
fn commands_in_amf3_messages_are_answered_in_amf0() {
    let mut client = Client::new();
    let amf3 = |command: &Command| [&[0][..], &command.to_body()].concat();
    client.message(
        3,
        type_id::COMMAND_AMF3,
        0,
        &amf3(&connect_with("live", [("objectEncoding", 3.0.into())])),
    );
    assert_eq!(client.replies(), CONNECT_REPLIES);
    client.message(
        3,
        type_id::COMMAND_AMF3,
        0,
        &amf3(&Command::new("createStream", 2.0, [])),
    );
    client.message(3, type_id::COMMAND_AMF3, 1, &amf3(&publish(3.0, "key")));
    client.accept();
    client.message(3, type_id::DATA_AMF3, 1, &[0, 2, 0, 1, b'x']);
    assert_eq!(client.media(), [(MediaKind::DataAmf3, 0, vec![0, 2, 0, 1, b'x'])]);
}

#[test]
fn enhanced_rtmp_clients_are_recognised() {
    for (property, value, reconnect) in [
        ("fourCcList", Value::StrictArray(vec!["hvc1".into()]), false),
        ("capsEx", Value::Number(1.0), true),
        (
            "videoFourCcInfoMap",
            Value::object([("*", Value::Number(1.0))]),
            false,
        ),
    ] {
        let mut client = Client::new();
        client.send(0, &connect_with("live", [(property, value)]));
        let Some(ServerEvent::Connected(info)) = client.events.pop() else {
            panic!("connected")
        };
        assert_eq!((info.enhanced, info.reconnect), (true, reconnect));
        client.replies();
        assert_eq!(client.session.request_reconnect(None, "restart"), Ok(reconnect));
        let expected: &[&str] = if reconnect {
            &["onStatus(0) NetConnection.Connect.ReconnectRequest"]
        } else {
            &[]
        };
        assert_eq!(client.replies(), expected);
    }
}

#[test]
fn the_server_announces_its_chunk_size_before_the_connect_result() {
    let mut client = Client::new();
    client.send(0, &connect("live"));
    let output = client.session.output().split();
    let announcement = [2, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0, 1, 0, 0];
    assert!(
        output
            .windows(announcement.len())
            .any(|window| window == announcement)
    );
}
