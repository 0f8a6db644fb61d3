//! The answers of a server (RTMP 1.0 §7.2).

use super::Command;
use super::status::{self, Level, code};
use crate::ertmp;
use spillway_amf::Value;

/// What the server calls itself in the connect result. Old clients compare it as a Flash Media
/// Server version, so it has that form.
const FMS_VERSION: &str = "FMS/3,0,1,123";
/// The capability bits Flash Media Server 3 sends; clients read none of them.
const CAPABILITIES: f64 = 31.0;

/// `_result` with `value` after a null command object.
pub fn result(transaction_id: f64, value: Value) -> Command {
    Command::new("_result", transaction_id, [value])
}

/// `_error` with a status object.
pub fn error(transaction_id: f64, code: &str, description: &str) -> Command {
    Command::new(
        "_error",
        transaction_id,
        [status::info(Level::Error, code, description)],
    )
}

/// The result of connect. Enhanced RTMP properties stand in both objects, because clients differ
/// in which one they read. Objects are always answered in AMF0, and the result says so.
pub fn connect_result(transaction_id: f64) -> Command {
    let mut properties = vec![
        ("fmsVer".to_owned(), Value::from(FMS_VERSION)),
        ("capabilities".to_owned(), Value::Number(CAPABILITIES)),
    ];
    properties.extend(ertmp::server_properties());

    let mut info = match status::info(Level::Status, code::CONNECT_SUCCESS, "Connection succeeded.") {
        Value::Object(fields) => fields,
        other => vec![("info".to_owned(), other)],
    };
    info.push(("objectEncoding".to_owned(), Value::Number(0.0)));
    info.extend(ertmp::server_properties());

    Command::with_object(
        "_result",
        transaction_id,
        Value::Object(properties),
        [Value::Object(info)],
    )
}

/// The result of createStream: the id of the new message stream.
pub fn create_stream_result(transaction_id: f64, message_stream_id: u32) -> Command {
    result(transaction_id, Value::Number(f64::from(message_stream_id)))
}

/// `onFCPublish`, which some hardware encoders wait for before they publish. They look for their
/// own transaction id in it.
pub fn on_fc_publish(transaction_id: f64, stream_name: &str) -> Command {
    Command::new(
        "onFCPublish",
        transaction_id,
        [status::info(Level::Status, code::PUBLISH_START, stream_name)],
    )
}

/// `onFCUnpublish`, the counterpart of [`on_fc_publish`].
pub fn on_fc_unpublish(transaction_id: f64, stream_name: &str) -> Command {
    Command::new(
        "onFCUnpublish",
        transaction_id,
        [status::info(Level::Status, code::UNPUBLISH_SUCCESS, stream_name)],
    )
}

/// `onFCSubscribe`: the stream can be played.
pub fn on_fc_subscribe(stream_name: &str) -> Command {
    Command::new(
        "onFCSubscribe",
        0.0,
        [status::info(Level::Status, code::PLAY_START, stream_name)],
    )
}

/// The Enhanced RTMP v2 reconnect request. `tc_url` is where to go, absolute or relative to the
/// URL the client used; `None` means the same place.
pub fn reconnect_request(tc_url: Option<&str>, description: &str) -> Command {
    let mut fields = vec![
        ("level", Value::from(Level::Status.as_str())),
        ("code", Value::from(code::CONNECT_RECONNECT_REQUEST)),
    ];
    if let Some(tc_url) = tc_url {
        fields.push(("tcUrl", Value::from(tc_url)));
    }
    fields.push(("description", Value::from(description)));
    Command::new("onStatus", 0.0, [Value::object(fields)])
}

/// The body of the `|RtmpSampleAccess` data message: Flash players may read audio and video
/// samples.
pub fn sample_access() -> Vec<u8> {
    let mut body = Vec::with_capacity(24);
    for value in [
        Value::from("|RtmpSampleAccess"),
        Value::Boolean(true),
        Value::Boolean(true),
    ] {
        spillway_amf::amf0::write(&value, &mut body);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connect_result_advertises_forwarding_in_both_objects() {
        let command = connect_result(1.0);
        for index in [0, 1] {
            let object = command.argument(index).expect("two objects");
            let any = object
                .get("videoFourCcInfoMap")
                .and_then(|map| map.get("*"))
                .and_then(Value::as_f64);
            assert_eq!(any, Some(4.0));
            assert!(object.get("capsEx").and_then(Value::as_f64).is_some());
            assert!(matches!(object.get("fourCcList"), Some(Value::StrictArray(list)) if !list.is_empty()));
        }
        let info = command.argument(1).expect("info");
        assert_eq!(
            info.get("code").and_then(Value::as_str),
            Some(code::CONNECT_SUCCESS)
        );
        assert_eq!(info.get("objectEncoding").and_then(Value::as_f64), Some(0.0));
    }

    #[test]
    fn a_reconnect_request_names_the_new_place_only_when_there_is_one() {
        let place = |command: &Command| {
            command
                .first_object()
                .and_then(|info| info.get("tcUrl"))
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        assert_eq!(place(&reconnect_request(None, "restart")), None);
        assert_eq!(
            place(&reconnect_request(Some("//other/live"), "move")).as_deref(),
            Some("//other/live")
        );
    }
}
