#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| spillway_fuzz::amf0(data));
