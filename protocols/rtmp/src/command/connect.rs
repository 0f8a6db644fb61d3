//! The connect command (RTMP 1.0 §7.2.1.1, Enhanced RTMP v2 "Enhancing NetConnection connect Command").

use super::Command;
use crate::ertmp::Capabilities;
use spillway_amf::Value;

/// What a client says of itself when it connects. Every field may be missing on the wire.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Connect {
    /// The application, as sent: may carry slashes and a query. Empty if missing.
    pub app: String,
    /// The URL the client connected to, without quotes around it. Empty if missing.
    pub tc_url: String,
    /// The client's name for itself. Empty if missing.
    pub flash_version: String,
    /// AMF version the client wants commands in: 0 or 3.
    pub object_encoding: f64,
    /// What the client can do of Enhanced RTMP.
    pub capabilities: Capabilities,
}

impl Connect {
    /// Reads a connect command. The properties are taken from the first argument that has any,
    /// object or ECMA array; values of another type than expected count as missing.
    pub fn from_command(command: &Command) -> Self {
        let Some(object) = command.first_object() else {
            return Self::default();
        };
        let text = |key| {
            object
                .get(key)
                .and_then(Value::as_str)
                .map(unquoted)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            app: text("app"),
            tc_url: text("tcUrl"),
            flash_version: text("flashVer"),
            object_encoding: object
                .get("objectEncoding")
                .and_then(Value::as_f64)
                .unwrap_or_default(),
            capabilities: Capabilities::from_properties(object),
        }
    }
}

/// Without the spaces and the quotes that some clients leave around a value.
fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(|c| c == '\'' || c == '"').trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_properties_may_stand_in_an_ecma_array_behind_other_arguments() {
        let array = Value::EcmaArray(vec![("app".to_owned(), Value::from("live"))]);
        let command = Command::with_object("connect", 1.0, Value::Null, [Value::Boolean(true), array]);
        assert_eq!(Connect::from_command(&command).app, "live");
    }

    #[test]
    fn quotes_around_the_url_are_dropped() {
        let command = Command::with_object(
            "connect",
            1.0,
            Value::object([("tcUrl", Value::from("'rtmp://h/live'"))]),
            [],
        );
        assert_eq!(Connect::from_command(&command).tc_url, "rtmp://h/live");
    }

    #[test]
    fn a_connect_without_properties_is_all_empty() {
        assert_eq!(
            Connect::from_command(&Command::new("connect", 1.0, [])),
            Connect::default()
        );
    }

    #[test]
    fn values_of_the_wrong_type_count_as_missing() {
        let odd = Value::object([("app", Value::Number(3.0)), ("objectEncoding", Value::from("3"))]);
        let connect = Connect::from_command(&Command::with_object("connect", 1.0, odd, []));
        assert_eq!(connect, Connect::default());
    }
}
