//! AMF0 (Action Message Format AMF 0, December 2007).
use crate::{AmfError, Value};

/// Reads one AMF0 value from the front of `input`, which then starts after it.
///
/// # Errors
/// Truncated input, an unknown marker, a reference, or a value over the [limits](crate::limits).
pub fn read(input: &mut &[u8]) -> Result<Value, AmfError> {
    let _ = input;
    Err(AmfError::Truncated { offset: 0 })
}

/// Reads all values of a message.
///
/// # Errors
/// As [`read`]; the first bad value fails the whole message.
pub fn read_all(message: &[u8]) -> Result<Vec<Value>, AmfError> {
    let _ = message;
    Ok(Vec::new())
}

/// Reads what can be read of a message and stops at the first error.
pub fn read_lenient(message: &[u8]) -> Vec<Value> {
    let _ = message;
    Vec::new()
}

/// Appends one AMF0 value to `out`.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    let _ = (value, out);
}
