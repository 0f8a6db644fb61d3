//! The stream registry, the frame ring and the HLS store: the heart of Spillway, usable as a library.
