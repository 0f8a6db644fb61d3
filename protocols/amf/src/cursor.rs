//! Checked reading from a message, with the message's value budget.

use crate::{AmfError, limits::MAX_VALUES};

/// A place in a message. Every read is checked; nothing is copied.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    values_left: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor {
            bytes,
            at: 0,
            values_left: MAX_VALUES,
        }
    }

    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Takes one value, or one property name declared ahead of its value, from the message's budget.
    pub(crate) fn charge(&mut self) -> Result<(), AmfError> {
        self.values_left = self
            .values_left
            .checked_sub(1)
            .ok_or(AmfError::TooManyValues { offset: self.at })?;
        Ok(())
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], AmfError> {
        let taken = self.rest().get(..length).ok_or(AmfError::Truncated {
            offset: self.bytes.len(),
        })?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], AmfError> {
        let end = self.bytes.len();
        self.take(N)?
            .try_into()
            .map_err(|_| AmfError::Truncated { offset: end })
    }

    pub(crate) fn u8(&mut self) -> Result<u8, AmfError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, AmfError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, AmfError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, AmfError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, AmfError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, AmfError> {
        self.array().map(f64::from_be_bytes)
    }

    pub(crate) fn text(&mut self, length: usize) -> Result<String, AmfError> {
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// A string behind a 16-bit length.
    pub(crate) fn short_text(&mut self) -> Result<String, AmfError> {
        let length = self.u16()?;
        self.text(usize::from(length))
    }

    /// A string behind a 32-bit length.
    pub(crate) fn long_text(&mut self) -> Result<String, AmfError> {
        let length = self.u32()?;
        let length = usize::try_from(length).map_err(|_| AmfError::Truncated {
            offset: self.bytes.len(),
        })?;
        self.text(length)
    }
}
