//! The dialogues of the players people use, and what the server must answer at each step.

mod support;

use spillway_amf::Value;
use spillway_rtmp::command::Command;
use spillway_rtmp::message::{UserControl, type_id};
use spillway_rtmp::session::{PlayRefusal, ServerEvent};
use support::{Client, call, connect, connect_with, publish};

const PLAY_REPLIES: [&str; 4] = [
    "StreamBegin(1)",
    "onStatus(0)@1 NetStream.Play.Reset",
    "onStatus(0)@1 NetStream.Play.Start",
    "data@1 |RtmpSampleAccess",
];

fn play(transaction_id: f64, arguments: impl IntoIterator<Item = Value>) -> Command {
    Command::new("play", transaction_id, arguments)
}

#[test]
fn ffmpeg_mpv_and_vlc_ask_for_the_length_and_play() {
    let mut client = Client::new();
    client.send(
        0,
        &connect_with("live", [("fpad", false.into()), ("videoFunction", 1.0.into())]),
    );
    client.replies();
    client.message(2, type_id::WINDOW_ACK_SIZE, 0, &2_500_000u32.to_be_bytes());
    client.send(0, &Command::new("createStream", 2.0, []));
    assert_eq!(client.replies(), ["_result(2) 1"]);
    client.message(
        8,
        type_id::COMMAND,
        0,
        &call("getStreamLength", 3.0, "key").to_body(),
    );
    assert_eq!(client.replies(), ["_result(3) 0"]);
    let command = play(4.0, ["key".into(), Value::Number(-2000.0)]);
    client.message(8, type_id::COMMAND, 1, &command.to_body());
    let buffer = UserControl::SetBufferLength {
        message_stream_id: 1,
        buffer_ms: 3000,
    };
    client.message_at(2, 1, type_id::USER_CONTROL, 0, &buffer.to_body());
    let request = client
        .events
        .iter()
        .position(|e| matches!(e, ServerEvent::PlayRequested { .. }));
    assert!(request.is_some());
    assert_eq!(client.accept(), "live/key");
    assert_eq!(client.replies(), PLAY_REPLIES);
    assert_eq!(client.session.play_stream_id(), 1);
    client.events.clear();
    client.send(0, &call("deleteStream", 5.0, 1.0));
    assert_eq!(client.events, [ServerEvent::PlayEnded]);
}

#[test]
fn ffmpeg_in_live_mode_and_rtmpdump_subscribe_first() {
    let mut client = Client::connected("live");
    client.user_control(UserControl::SetBufferLength {
        message_stream_id: 0,
        buffer_ms: 300,
    });
    client.send(0, &Command::new("createStream", 2.0, []));
    client.send(0, &call("FCSubscribe", 3.0, "key"));
    assert_eq!(
        client.replies(),
        [
            "_result(2) 1",
            "_result(3)",
            "onFCSubscribe(0) NetStream.Play.Start"
        ]
    );
    client.send(
        1,
        &play(4.0, ["key".into(), Value::Number(-1000.0), Value::Number(2000.0)]),
    );
    client.user_control(UserControl::SetBufferLength {
        message_stream_id: 1,
        buffer_ms: 36_000_000,
    });
    client.accept();
    assert_eq!(client.replies(), PLAY_REPLIES);
}

#[test]
fn gstreamer_plays_with_transaction_0() {
    let mut client = Client::connected("live");
    for _ in 0..2 {
        client.message(2, type_id::WINDOW_ACK_SIZE, 0, &2_500_000u32.to_be_bytes());
    }
    client.send(0, &Command::new("createStream", 2.0, []));
    client.send(1, &play(0.0, ["key".into(), Value::Number(-2.0)]));
    client.accept();
    assert_eq!(client.replies(), [&["_result(2) 1"][..], &PLAY_REPLIES].concat());
}

#[test]
fn every_start_argument_means_live() {
    let starts: [&[Value]; 6] = [
        &[],
        &[Value::Number(0.0)],
        &[Value::Number(1000.0)],
        &[Value::Number(f64::INFINITY)],
        &[Value::String("-2000".to_owned())],
        &[Value::Null, Value::Null, Value::Boolean(true)],
    ];
    for start in starts {
        let mut client = Client::connected("live");
        client.send(0, &Command::new("createStream", 2.0, []));
        client.send(1, &play(3.0, [&[Value::from("key")], start].concat()));
        assert_eq!(client.accept(), "live/key", "{start:?}");
    }
}

#[test]
fn vlc_pauses_and_goes_on() {
    let mut client = Client::playing();
    let pause = |paused: bool| Command::new("pause", 0.0, [paused.into(), Value::Number(1234.0)]);
    client.send(1, &pause(true));
    assert_eq!(
        client.replies(),
        ["StreamEof(1)", "onStatus(0)@1 NetStream.Pause.Notify"]
    );
    client.send(1, &pause(false));
    assert_eq!(
        client.replies(),
        ["StreamBegin(1)", "onStatus(0)@1 NetStream.Unpause.Notify"]
    );
    assert_eq!(
        client.events,
        [ServerEvent::Paused(true), ServerEvent::Paused(false)]
    );
}

#[test]
fn what_a_player_asks_for_while_it_waits_is_done_when_it_plays() {
    let mut client = Client::connected("live");
    client.send(0, &Command::new("createStream", 2.0, []));
    client.send(1, &play(3.0, ["key".into()]));
    let (request, _) = client.request();
    client.events.clear();
    client.replies();
    let pause = |paused: bool| Command::new("pause", 0.0, [paused.into(), Value::Number(0.0)]);
    client.send(1, &call("receiveVideo", 0.0, false));
    client.send(1, &pause(false));
    client.send(1, &call("receiveAudio", 0.0, true));
    client.send(1, &pause(true));
    assert!(client.events.is_empty());
    assert!(client.replies().is_empty());

    assert_eq!(client.session.accept_play(request), Ok(true));
    assert_eq!(client.replies(), PLAY_REPLIES);
    client.feed(&[]).expect("session goes on");
    assert_eq!(
        client.events,
        [
            ServerEvent::Paused(true),
            ServerEvent::ReceiveAudio(true),
            ServerEvent::ReceiveVideo(false)
        ]
    );
    assert_eq!(
        client.replies(),
        [
            "StreamEof(1)",
            "onStatus(0)@1 NetStream.Pause.Notify",
            "onStatus(0)@1 NetStream.Seek.Notify",
            "onStatus(0)@1 NetStream.Play.Start"
        ]
    );
    client.events.clear();
    client.feed(&[]).expect("session goes on");
    assert!(client.events.is_empty(), "each wish is told once");
}

#[test]
fn remembered_wishes_come_before_later_ones() {
    let mut client = Client::connected("live");
    client.send(1, &play(3.0, ["key".into()]));
    let (request, _) = client.request();
    client.events.clear();
    client.send(1, &call("pause", 0.0, true));
    assert_eq!(client.session.accept_play(request), Ok(true));
    client.send(1, &call("pause", 0.0, false));
    assert_eq!(
        client.events,
        [ServerEvent::Paused(true), ServerEvent::Paused(false)]
    );
}

#[test]
fn wishes_of_a_play_that_was_refused_or_withdrawn_are_forgotten() {
    for withdrawn in [false, true] {
        let mut client = Client::connected("live");
        client.send(1, &play(3.0, ["key".into()]));
        let (request, _) = client.request();
        client.send(1, &call("pause", 0.0, true));
        if withdrawn {
            client.send(1, &Command::new("closeStream", 0.0, []));
        } else {
            let refusal = PlayRefusal::StreamNotFound;
            assert_eq!(client.session.refuse_play(request, refusal, "no"), Ok(true));
        }
        client.send(1, &play(4.0, ["key".into()]));
        client.accept();
        assert!(!client.events.contains(&ServerEvent::Paused(true)));
    }
}

#[test]
fn a_seek_is_confirmed_so_that_ffmpeg_takes_media_again() {
    let mut client = Client::playing();
    client.send(1, &Command::new("seek", 0.0, [Value::Number(0.0)]));
    assert_eq!(client.replies(), ["onStatus(0)@1 NetStream.Seek.Notify"]);
    assert!(client.events.is_empty());
}

#[test]
fn flash_turns_audio_and_video_off_and_on() {
    let mut client = Client::playing();
    client.send(1, &call("receiveAudio", 0.0, false));
    assert!(client.replies().is_empty());
    client.send(1, &call("receiveVideo", 0.0, true));
    assert_eq!(
        client.replies(),
        [
            "onStatus(0)@1 NetStream.Seek.Notify",
            "onStatus(0)@1 NetStream.Play.Start"
        ]
    );
    assert_eq!(
        client.events,
        [ServerEvent::ReceiveAudio(false), ServerEvent::ReceiveVideo(true)]
    );
}

#[test]
fn flash_closes_the_stream_and_plays_again_on_the_same_connection() {
    let mut client = Client::playing();
    client.send(1, &Command::new("closeStream", 0.0, []));
    client.send(1, &play(0.0, ["other".into()]));
    assert_eq!(client.events.remove(0), ServerEvent::PlayEnded);
    assert_eq!(client.accept(), "live/other");
    // Without closing first.
    client.send(1, &play(0.0, ["third".into()]));
    assert_eq!(client.events.remove(0), ServerEvent::PlayEnded);
    assert_eq!(client.accept(), "live/third");
    client.send(1, &play(0.0, [false.into()]));
    assert_eq!(client.events, [ServerEvent::PlayEnded]);
}

#[test]
fn a_connection_that_publishes_or_waits_to_publish_cannot_play() {
    let waiting = || {
        let mut client = Client::connected("live");
        client.send(1, &publish(3.0, "key"));
        client.events.clear();
        client
    };
    for mut client in [Client::publishing(), waiting()] {
        for message_stream_id in [1, 2] {
            client.send(message_stream_id, &play(0.0, ["other".into()]));
            assert!(client.events.is_empty());
            let output = client.session.output().to_vec();
            let advice = b"stop publishing first, or play on a second connection";
            assert!(output.windows(advice.len()).any(|window| window == advice));
            assert_eq!(
                client.replies(),
                [format!("onStatus(0)@{message_stream_id} NetStream.Play.Failed")]
            );
        }
        client.send(1, &Command::new("closeStream", 0.0, []));
        assert_eq!(client.events, [ServerEvent::PublishEnded]);
        client.send(2, &play(0.0, ["other".into()]));
        assert_eq!(client.accept(), "live/other");
    }
}

#[test]
fn a_refused_play_does_not_disturb_the_publish() {
    let mut client = Client::publishing();
    client.send(0, &Command::new("createStream", 4.0, []));
    client.send(2, &play(0.0, ["other".into()]));
    for message_stream_id in [1, 2] {
        client.message(4, type_id::AUDIO, message_stream_id, &[0xAF, 1, 0]);
    }
    client.send(0, &call("deleteStream", 0.0, 2.0));
    client.message(4, type_id::AUDIO, 1, &[0xAF, 1, 0]);
    assert_eq!(client.media().len(), 3);
    assert!(client.events.is_empty());
}

#[test]
fn a_player_on_another_stream_is_told_there() {
    let mut client = Client::connected("live");
    client.send(0, &Command::new("createStream", 2.0, []));
    client.send(0, &Command::new("createStream", 3.0, []));
    client.replies();
    client.send(2, &play(0.0, ["key".into()]));
    client.accept();
    assert_eq!(
        client.replies()[..2],
        ["StreamBegin(2)", "onStatus(0)@2 NetStream.Play.Reset"]
    );
    assert_eq!(client.session.play_stream_id(), 2);
}

#[test]
fn a_refused_play_says_why_and_may_be_tried_again() {
    let mut client = Client::connected("live");
    client.send(0, &Command::new("createStream", 2.0, []));
    client.replies();
    for (refusal, line) in [
        (
            PlayRefusal::StreamNotFound,
            "onStatus(0)@1 NetStream.Play.StreamNotFound",
        ),
        (PlayRefusal::Failed, "onStatus(0)@1 NetStream.Play.Failed"),
    ] {
        client.send(1, &play(3.0, ["key".into()]));
        let (request, _) = client.request();
        assert_eq!(client.session.refuse_play(request, refusal, "why"), Ok(true));
        assert_eq!(client.replies(), [line]);
        assert_eq!(client.session.accept_play(request), Ok(false));
        assert!(client.replies().is_empty());
    }
}

#[test]
fn the_end_of_the_stream_is_told_once() {
    let mut client = Client::playing();
    client.session.end_play("The publisher has gone.").expect("told");
    client.session.end_play("The publisher has gone.").expect("told");
    assert_eq!(
        client.replies(),
        ["StreamEof(1)", "onStatus(0)@1 NetStream.Play.UnpublishNotify"]
    );
    client.send(0, &call("deleteStream", 0.0, 1.0));
    assert!(client.events.is_empty());
}

#[test]
fn a_player_that_leaves_while_it_waits_withdraws_its_request() {
    let mut client = Client::connected("live");
    client.send(0, &Command::new("createStream", 2.0, []));
    client.send(1, &play(3.0, ["key".into()]));
    let (request, _) = client.request();
    client.send(0, &call("deleteStream", 0.0, 1.0));
    assert_eq!(client.events.last(), Some(&ServerEvent::PlayEnded));
    client.replies();
    assert_eq!(client.session.accept_play(request), Ok(false));
    assert!(client.replies().is_empty());
}

#[test]
fn commands_for_a_player_do_nothing_without_one() {
    let mut client = Client::new();
    client.send(0, &connect("live"));
    client.events.clear();
    client.replies();
    for name in [
        "pause",
        "seek",
        "receiveAudio",
        "receiveVideo",
        "closeStream",
        "deleteStream",
    ] {
        client.send(1, &Command::new(name, 0.0, [Value::Boolean(true)]));
    }
    assert!(client.events.is_empty());
    assert!(client.replies().is_empty());
}
