//! Benchmarks of Spillway's hot paths.
