//! Command messages: their form, what clients ask for, and what a server answers
//! (RTMP 1.0 §7.2).

pub mod connect;
pub mod reply;
pub mod request;
pub mod status;

pub use connect::Connect;
pub use request::Request;
pub use status::{Level, code};

use spillway_amf::{AmfError, Value, amf0};

/// One command: a name, a transaction id and arguments (RTMP 1.0 §7.1.1).
///
/// `arguments[0]` is what the specification calls the command object; it is null for most
/// commands, and absent from those of careless clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// The procedure's name, such as `connect` or `_result`.
    pub name: String,
    /// Pairs a result with its call; 0 asks for no result.
    pub transaction_id: f64,
    /// The command object and what follows it.
    pub arguments: Vec<Value>,
}

impl Command {
    /// A command with a null command object in front of `arguments`.
    pub fn new(name: &str, transaction_id: f64, arguments: impl IntoIterator<Item = Value>) -> Self {
        let mut all = vec![Value::Null];
        all.extend(arguments);
        Self {
            name: name.to_owned(),
            transaction_id,
            arguments: all,
        }
    }

    /// A command whose command object is `object`.
    pub fn with_object(
        name: &str,
        transaction_id: f64,
        object: Value,
        arguments: impl IntoIterator<Item = Value>,
    ) -> Self {
        let mut all = vec![object];
        all.extend(arguments);
        Self {
            name: name.to_owned(),
            transaction_id,
            arguments: all,
        }
    }

    /// As [`read`](Self::read), where a command over the limits is none.
    pub fn parse(body: &[u8], amf3: bool) -> Option<Self> {
        Self::read(body, amf3).ok().flatten()
    }

    /// Reads the body of a command message. `amf3` is true for message type 17, whose body starts
    /// with a format selector byte. Everything but the name may be missing; reading stops quietly
    /// at the first value that is broken. `None` when there is no name.
    ///
    /// # Errors
    /// The values are over the limits of [`spillway_amf::limits`].
    pub fn read(body: &[u8], amf3: bool) -> Result<Option<Self>, AmfError> {
        let body = match body.split_first() {
            Some((0, rest)) if amf3 => rest,
            _ => body,
        };
        let values = amf0::read_within_limits(body)?;
        Ok(Self::from_values(values))
    }

    fn from_values(values: Vec<Value>) -> Option<Self> {
        let mut values = values.into_iter().peekable();
        let name = match values.next()? {
            Value::String(name) if !name.is_empty() => name,
            _ => return None,
        };
        let transaction_id = match values.peek() {
            Some(Value::Number(id)) => {
                let id = if id.is_finite() { *id } else { 0.0 };
                values.next();
                id
            }
            _ => 0.0,
        };
        Some(Self {
            name,
            transaction_id,
            arguments: values.collect(),
        })
    }

    /// The body of a type-20 command message.
    pub fn to_body(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(256);
        amf0::write(&Value::String(self.name.clone()), &mut body);
        amf0::write(&Value::Number(self.transaction_id), &mut body);
        for argument in &self.arguments {
            amf0::write(argument, &mut body);
        }
        body
    }

    /// The argument at `index`; 0 is the command object.
    pub fn argument(&self, index: usize) -> Option<&Value> {
        self.arguments.get(index)
    }

    /// The argument at `index` as a string; `None` if it is missing or something else.
    pub fn string(&self, index: usize) -> Option<&str> {
        self.argument(index).and_then(Value::as_str)
    }

    /// The argument at `index` as a number; `None` if it is missing or something else.
    pub fn number(&self, index: usize) -> Option<f64> {
        self.argument(index).and_then(Value::as_f64)
    }

    /// The argument at `index` as a boolean; `None` if it is missing or something else.
    pub fn boolean(&self, index: usize) -> Option<bool> {
        self.argument(index).and_then(Value::as_bool)
    }

    /// The first argument that has properties, wherever it stands.
    pub fn first_object(&self) -> Option<&Value> {
        self.arguments.iter().find(|value| has_properties(value))
    }
}

/// Whether a value can carry named properties.
pub(crate) fn has_properties(value: &Value) -> bool {
    matches!(
        value,
        Value::Object(_) | Value::EcmaArray(_) | Value::TypedObject { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_command_survives_a_round_trip() {
        let command = Command::new("publish", 5.0, [Value::from("key?token=a"), Value::from("live")]);
        assert_eq!(Command::parse(&command.to_body(), false), Some(command));
    }

    #[test]
    fn a_name_alone_is_a_command() {
        let mut body = Vec::new();
        amf0::write(&Value::from("createStream"), &mut body);
        let command = Command::parse(&body, false).expect("a name is enough");
        assert_eq!(
            (command.name.as_str(), command.transaction_id),
            ("createStream", 0.0)
        );
        assert!(command.arguments.is_empty());
    }

    #[test]
    fn a_missing_transaction_id_leaves_the_arguments_in_place() {
        let mut body = Vec::new();
        amf0::write(&Value::from("play"), &mut body);
        amf0::write(&Value::Null, &mut body);
        amf0::write(&Value::from("key"), &mut body);
        let command = Command::parse(&body, false).expect("command");
        assert_eq!(command.string(1), Some("key"));
    }

    #[test]
    fn an_endless_transaction_id_counts_as_none() {
        let mut body = Vec::new();
        amf0::write(&Value::from("x"), &mut body);
        amf0::write(&Value::Number(f64::NAN), &mut body);
        assert_eq!(Command::parse(&body, false).map(|c| c.transaction_id), Some(0.0));
    }

    #[test]
    fn a_type_17_body_starts_with_a_selector_byte() {
        let command = Command::new("createStream", 2.0, []);
        let body = [&[0][..], &command.to_body()].concat();
        assert_eq!(Command::parse(&body, true), Some(command.clone()));
        assert_eq!(Command::parse(&command.to_body(), true), Some(command));
        assert_eq!(Command::parse(&body, false), None);
    }

    #[test]
    fn a_body_without_a_name_is_no_command() {
        assert_eq!(Command::parse(&[], false), None);
        assert_eq!(Command::parse(&[0x05], false), None);
        assert_eq!(Command::parse(&[0x02, 0, 0], false), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(body in proptest::collection::vec(any::<u8>(), 0..512), amf3 in any::<bool>()) {
            if let Some(command) = Command::parse(&body, amf3) {
                let _ = Request::from_command(&command);
                let _ = Connect::from_command(&command);
            }
        }
    }
}
