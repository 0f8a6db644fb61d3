//! Pieces of HTTP that several routes share.

pub(crate) mod answer;
pub(crate) mod conditional;
pub(crate) mod cors;
pub(crate) mod encoding;
pub(crate) mod range;
pub(crate) mod rope;
