//! Status objects and the codes they carry (RTMP 1.0 §7.2.2).

use super::Command;
use spillway_amf::Value;

/// Codes of status objects.
pub mod code {
    /// The connect command succeeded.
    pub const CONNECT_SUCCESS: &str = "NetConnection.Connect.Success";
    /// The connect command was refused.
    pub const CONNECT_REJECTED: &str = "NetConnection.Connect.Rejected";
    /// The server asks the client to connect again (Enhanced RTMP v2).
    pub const CONNECT_RECONNECT_REQUEST: &str = "NetConnection.Connect.ReconnectRequest";
    /// A call could not be carried out.
    pub const CALL_FAILED: &str = "NetConnection.Call.Failed";
    /// Publishing has started.
    pub const PUBLISH_START: &str = "NetStream.Publish.Start";
    /// The name is taken or not usable.
    pub const PUBLISH_BAD_NAME: &str = "NetStream.Publish.BadName";
    /// The publisher may not publish this name.
    pub const PUBLISH_DENIED: &str = "NetStream.Publish.Denied";
    /// Publishing has ended.
    pub const UNPUBLISH_SUCCESS: &str = "NetStream.Unpublish.Success";
    /// The playlist was reset; precedes `PLAY_START`.
    pub const PLAY_RESET: &str = "NetStream.Play.Reset";
    /// Playback has started.
    pub const PLAY_START: &str = "NetStream.Play.Start";
    /// Playback has stopped.
    pub const PLAY_STOP: &str = "NetStream.Play.Stop";
    /// There is no such stream.
    pub const PLAY_STREAM_NOT_FOUND: &str = "NetStream.Play.StreamNotFound";
    /// Playback failed.
    pub const PLAY_FAILED: &str = "NetStream.Play.Failed";
    /// The stream's publisher has gone.
    pub const PLAY_UNPUBLISH_NOTIFY: &str = "NetStream.Play.UnpublishNotify";
    /// All of the stream has been played.
    pub const PLAY_COMPLETE: &str = "NetStream.Play.Complete";
    /// Playback is paused.
    pub const PAUSE_NOTIFY: &str = "NetStream.Pause.Notify";
    /// Playback goes on after a pause.
    pub const UNPAUSE_NOTIFY: &str = "NetStream.Unpause.Notify";
    /// A seek was carried out.
    pub const SEEK_NOTIFY: &str = "NetStream.Seek.Notify";
}

/// How bad a status is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// All is well.
    Status,
    /// Something to know about; not a failure.
    Warning,
    /// A failure: clients stop at it.
    Error,
}

impl Level {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A status object. The order of the fields is fixed, level first: Wirecast reads them by position.
pub fn info(level: Level, code: &str, description: &str) -> Value {
    Value::object([
        ("level", Value::from(level.as_str())),
        ("code", Value::from(code)),
        ("description", Value::from(description)),
    ])
}

/// An `onStatus` command, to be sent on the message stream it speaks of.
pub fn on_status(level: Level, code: &str, description: &str) -> Command {
    Command::new("onStatus", 0.0, [info(level, code, description)])
}

/// What a status object received from a peer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// True for level `error`, and for objects without a level whose code names a failure.
    pub is_error: bool,
    /// The code, empty if there was none.
    pub code: String,
    /// The description, empty if there was none.
    pub description: String,
}

impl Status {
    /// Reads the status object of an `onStatus`, `_error` or `onFCPublish` command: the last
    /// argument that has properties.
    pub fn from_command(command: &Command) -> Option<Self> {
        let object = command
            .arguments
            .iter()
            .rev()
            .find(|value| super::has_properties(value))?;
        let text = |key| {
            object
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let code = text("code");
        let is_error = match object.get("level").and_then(Value::as_str) {
            Some(level) => level.eq_ignore_ascii_case("error"),
            None => ["Failed", "BadName", "Denied", "Rejected", "StreamNotFound"]
                .iter()
                .any(|end| code.ends_with(end)),
        };
        Some(Self {
            is_error,
            code,
            description: text("description"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_comes_before_code_and_code_before_description() {
        let Value::Object(properties) = info(Level::Error, code::PUBLISH_DENIED, "no") else {
            panic!("a status is an object");
        };
        let keys: Vec<&str> = properties.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["level", "code", "description"]);
    }

    #[test]
    fn a_warning_is_not_an_error() {
        let command = on_status(Level::Warning, code::PUBLISH_START, "");
        assert!(!Status::from_command(&command).expect("status").is_error);
    }

    #[test]
    fn a_status_without_a_level_is_judged_by_its_code() {
        let bare = |code: &str| Command::new("onStatus", 0.0, [Value::object([("code", Value::from(code))])]);
        assert!(
            Status::from_command(&bare(code::PLAY_STREAM_NOT_FOUND))
                .expect("status")
                .is_error
        );
        assert!(
            !Status::from_command(&bare(code::PLAY_START))
                .expect("status")
                .is_error
        );
        assert_eq!(Status::from_command(&Command::new("onStatus", 0.0, [])), None);
    }
}
