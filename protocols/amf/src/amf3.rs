//! AMF3 (AMF 3 specification, January 2013).
use crate::{AmfError, Value};

/// Reads one AMF3 value from the front of `input`.
///
/// # Errors
/// Truncated input, an unknown marker, a reference, an externalizable object, or a value over the [limits](crate::limits).
pub fn read(input: &mut &[u8]) -> Result<Value, AmfError> {
    let _ = input;
    Err(AmfError::Truncated { offset: 0 })
}

/// Appends one AMF3 value to `out`.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    let _ = (value, out);
}
