#![no_main]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes allocated and not freed.
fn weigh() -> usize {
    let stats = GLOBAL.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| spillway_fuzz::server_session_weighed(data, &weigh));
