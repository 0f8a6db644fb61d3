//! End-to-end behaviour tests and their harness.
