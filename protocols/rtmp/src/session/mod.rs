//! Sessions, sans-io.
