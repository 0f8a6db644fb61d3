//! What a client's command asks for (RTMP 1.0 §7.2.1 and §7.2.2, and the FMLE and Flash calls
//! that are in no specification but that encoders make).

use super::Command;
use spillway_amf::Value;

/// A client's command, with the arguments a live server has a use for.
#[derive(Debug, Clone, PartialEq)]
pub enum Request<'a> {
    /// `connect`; see [`super::Connect`].
    Connect,
    /// `createStream`.
    CreateStream,
    /// `releaseStream`: forget who published this name before.
    ReleaseStream,
    /// `FCPublish`: the FMLE's announcement of a publish.
    FcPublish(&'a str),
    /// `FCUnpublish`: the FMLE's end of a publish.
    FcUnpublish(&'a str),
    /// `FCSubscribe`: wait for this live stream.
    FcSubscribe(&'a str),
    /// `getStreamLength`.
    GetStreamLength,
    /// `publish` of a name (empty if it was missing).
    Publish(&'a str),
    /// `play` or `play2` of a name (empty if it was missing). Start, duration and reset mean
    /// nothing for a live stream and are not read.
    Play(&'a str),
    /// `closeStream`, `publish(false)` or `play(false)`: stop what the message stream does.
    CloseStream,
    /// `deleteStream` of this id (`None` if it was missing).
    DeleteStream(Option<u32>),
    /// `pause` or `pauseRaw`: stop (true) or resume (false) sending.
    Pause(bool),
    /// `seek`.
    Seek,
    /// `receiveAudio`.
    ReceiveAudio(bool),
    /// `receiveVideo`.
    ReceiveVideo(bool),
    /// `_result`, `_error` or `onStatus`: an answer to a call, which needs no answer itself.
    Answer,
    /// Anything else.
    Unknown,
}

impl<'a> Request<'a> {
    /// Classifies a command. Every argument is optional.
    pub fn from_command(command: &'a Command) -> Self {
        let name = || command.string(1).unwrap_or_default();
        let flag = || command.boolean(1).unwrap_or(true);
        match command.name.as_str() {
            "connect" => Self::Connect,
            "createStream" => Self::CreateStream,
            "releaseStream" => Self::ReleaseStream,
            "FCPublish" => Self::FcPublish(name()),
            "FCUnpublish" => Self::FcUnpublish(name()),
            "FCSubscribe" => Self::FcSubscribe(name()),
            "getStreamLength" => Self::GetStreamLength,
            "publish" | "play" if command.boolean(1) == Some(false) => Self::CloseStream,
            "publish" => Self::Publish(name()),
            "play" => Self::Play(name()),
            "play2" => Self::Play(play2_name(command)),
            "closeStream" => Self::CloseStream,
            "deleteStream" => Self::DeleteStream(command.number(1).and_then(message_stream_id)),
            "pause" | "pauseRaw" => Self::Pause(flag()),
            "seek" => Self::Seek,
            "receiveAudio" => Self::ReceiveAudio(flag()),
            "receiveVideo" => Self::ReceiveVideo(flag()),
            "_result" | "_error" | "onStatus" => Self::Answer,
            _ => Self::Unknown,
        }
    }
}

/// `play2` carries its name in a parameter object.
fn play2_name(command: &Command) -> &str {
    command
        .first_object()
        .and_then(|parameters| parameters.get("streamName"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A message stream id sent as a number: whole, not negative, 32 bits.
pub(crate) fn message_stream_id(number: f64) -> Option<u32> {
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number in range, checked above"
        )]
        return Some(number as u32);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_arguments_do_not_hide_the_request() {
        for (name, request) in [
            ("publish", Request::Publish("")),
            ("play", Request::Play("")),
            ("play2", Request::Play("")),
            ("deleteStream", Request::DeleteStream(None)),
            ("pause", Request::Pause(true)),
            ("FCUnpublish", Request::FcUnpublish("")),
            ("_checkbw", Request::Unknown),
            ("_error", Request::Answer),
        ] {
            let command = Command {
                name: name.to_owned(),
                transaction_id: 0.0,
                arguments: Vec::new(),
            };
            assert_eq!(Request::from_command(&command), request, "{name}");
        }
    }

    #[test]
    fn publish_false_and_play_false_stop_the_stream() {
        for name in ["publish", "play"] {
            let command = Command::new(name, 0.0, [Value::Boolean(false)]);
            assert_eq!(Request::from_command(&command), Request::CloseStream);
        }
    }

    #[test]
    fn play2_names_its_stream_in_an_object() {
        let command = Command::new(
            "play2",
            0.0,
            [Value::object([("streamName", Value::from("key"))])],
        );
        assert_eq!(Request::from_command(&command), Request::Play("key"));
    }

    #[test]
    fn only_whole_numbers_in_range_are_message_stream_ids() {
        assert_eq!(message_stream_id(1.0), Some(1));
        assert_eq!(message_stream_id(f64::from(u32::MAX)), Some(u32::MAX));
        for bad in [-1.0, 0.5, 4_294_967_296.0, f64::NAN, f64::INFINITY] {
            assert_eq!(message_stream_id(bad), None);
        }
    }
}
