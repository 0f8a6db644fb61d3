//! What a client may cost before its publish is accepted, while it is, and afterwards.

mod support;

use bytes::BytesMut;
use spillway_rtmp::chunk::ChunkWriter;
use spillway_rtmp::command::Command;
use spillway_rtmp::message::type_id;
use spillway_rtmp::session::{MediaKind, PublishRefusal, ServerEvent, ServerOptions, SessionError};
use support::{Client, call, publish, set_data_frame};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// The longest message without an accepted publish.
const IDLE_MESSAGE_BYTES: usize = 256 * KIB;
/// Memory for incomplete messages without one.
const IDLE_PARTIAL_BYTES: usize = 320 * KIB;

/// One message in chunks of 64 KiB, which the client has announced.
fn message(csid: u32, type_id: u8, length: usize) -> BytesMut {
    let mut writer = ChunkWriter::new();
    writer.set_chunk_size(65_536);
    let mut bytes = BytesMut::new();
    writer
        .write(&mut bytes, csid, 0, type_id, 1, &vec![0x17; length])
        .expect("written");
    bytes
}

fn video(length: usize) -> BytesMut {
    message(6, type_id::VIDEO, length)
}

fn connected() -> Client {
    let mut client = Client::connected("live");
    client.chunk_size(65_536);
    client
}

fn pending() -> Client {
    let mut client = connected();
    client.send(1, &publish(3.0, "key"));
    client
}

fn publishing() -> Client {
    let mut client = Client::publishing();
    client.chunk_size(65_536);
    client
}

fn playing() -> Client {
    let mut client = Client::playing();
    client.chunk_size(65_536);
    client
}

/// The first chunk of a message: a head of 12 bytes and 64 KiB.
fn first_chunk(csid: u32, length: usize) -> BytesMut {
    message(csid, type_id::VIDEO, length).split_to(12 + 65_536)
}

fn assert_idle(mut client: Client) {
    let dropped = client.session.dropped_messages();
    client
        .feed(&video(IDLE_MESSAGE_BYTES))
        .expect("a message of the longest");
    assert_eq!(client.session.dropped_messages(), dropped + 1);
    assert_eq!(client.session.bytes_held(), 0);
    assert_eq!(
        client.feed(&video(IDLE_MESSAGE_BYTES + 1)),
        Err(SessionError::PeerTooMuchWithoutPublish {
            bytes: IDLE_MESSAGE_BYTES as u64 + 1,
            limit_bytes: IDLE_MESSAGE_BYTES as u64,
        })
    );
}

#[test]
fn only_an_accepted_publish_makes_room_for_large_messages() {
    let mut refused = pending();
    let (request, _) = refused.request();
    let refusal = PublishRefusal::Denied;
    assert_eq!(refused.session.refuse_publish(request, refusal, "no"), Ok(true));
    for client in [Client::new(), connected(), playing(), refused] {
        let mut client = client;
        client.chunk_size(65_536);
        assert_idle(client);
    }
    publishing()
        .feed(&video(8 * MIB))
        .expect("room for a large frame");
}

#[test]
fn the_end_of_a_publish_takes_the_room_away_again() {
    type End = fn(&mut Client);
    let ends: [End; 5] = [
        |client| client.send(1, &Command::new("closeStream", 0.0, [])),
        |client| client.send(0, &call("deleteStream", 0.0, 1.0)),
        |client| client.send(0, &call("FCUnpublish", 0.0, "key")),
        |client| client.send(1, &call("publish", 0.0, false)),
        |client| {
            let code = spillway_rtmp::command::code::PUBLISH_BAD_NAME;
            client.session.end_publish(code, "taken over").expect("sent");
        },
    ];
    for end in ends {
        let mut client = publishing();
        client.feed(&video(MIB)).expect("room while publishing");
        end(&mut client);
        assert_idle(client);
    }
}

/// Begins message after message until the session has enough of it.
fn assert_holds_little(mut client: Client) {
    let mut held = 0;
    for csid in 10..60 {
        if let Err(error) = client.feed(&first_chunk(csid, IDLE_MESSAGE_BYTES)) {
            assert!(held > IDLE_PARTIAL_BYTES / 2, "{held}");
            assert!(matches!(
                error,
                SessionError::PeerTooMuchWithoutPublish { limit_bytes, .. } if limit_bytes == IDLE_PARTIAL_BYTES as u64
            ));
            assert_eq!(error.reason(), "too_much_without_publish");
            let text = error.to_string();
            assert!(text.contains("no publish of it is accepted"), "{text}");
            return;
        }
        held = client.session.bytes_held();
        assert!(held <= IDLE_PARTIAL_BYTES, "{held}");
    }
    panic!("the limit is not reached with {held} bytes");
}

#[test]
fn a_client_without_a_publish_holds_little_on_any_number_of_chunk_streams() {
    assert_holds_little(connected());
    assert_holds_little(playing());
}

#[test]
fn configured_limits_that_are_smaller_hold_and_are_named_as_such() {
    let mut options = ServerOptions::default();
    options.limits.max_message_bytes = 1_000;
    let mut client = Client::with_options(options);
    let error = client.feed(&video(1_001)).expect_err("too long");
    assert!(matches!(error, SessionError::Chunk(_)), "{error}");
}

#[test]
fn what_encoders_send_ahead_of_the_answer_is_kept_up_to_the_held_limit() {
    let options = ServerOptions::default();
    let mut client = pending();
    client
        .events
        .retain(|event| matches!(event, ServerEvent::PublishRequested { .. }));
    client.message(4, type_id::DATA, 1, &set_data_frame());
    client.message(6, type_id::VIDEO, 1, &[0x17, 0, 0, 0, 0]);
    client.message(4, type_id::AUDIO, 1, &[0xAF, 0, 0x12, 0x10]);
    let key_frame = options.held_media_bytes - 2 * KIB;
    client.feed(&video(key_frame)).expect("a first key frame is held");
    client.accept();
    client.feed(&video(8 * MIB)).expect("the next one may be larger");
    let media = client.media();
    let kinds: Vec<MediaKind> = media.iter().map(|(kind, ..)| *kind).collect();
    use MediaKind::{Audio, Data, Video};
    assert_eq!(kinds, [Data, Video, Audio, Video, Video]);
    assert_eq!(media[3].2.len(), key_frame);
    assert_eq!(client.session.dropped_messages(), 0);
}

#[test]
fn while_a_publish_waits_no_more_is_taken_than_can_be_held() {
    let held_media_bytes = ServerOptions::default().held_media_bytes;
    let mut client = pending();
    assert_eq!(
        client.feed(&video(held_media_bytes + 1)),
        Err(SessionError::PeerTooMuchWithoutPublish {
            bytes: held_media_bytes as u64 + 1,
            limit_bytes: held_media_bytes as u64,
        })
    );
}

#[test]
fn a_frame_half_received_when_the_publish_ends_does_not_end_the_session() {
    let mut client = publishing();
    let mut rest = message(10, type_id::VIDEO, 2 * MIB);
    // Whole chunks: 12 bytes of head before the first, 1 before each of the others.
    let half = rest.split_to(12 + 65_536 + 15 * (1 + 65_536));
    client.feed(&half).expect("half a frame");
    client.send(0, &call("FCUnpublish", 0.0, "key"));
    client.feed(&rest).expect("the other half");
    assert_eq!(client.session.dropped_messages(), 1);
    assert_eq!(client.session.bytes_held(), 0);
    assert_holds_little(client);
}
