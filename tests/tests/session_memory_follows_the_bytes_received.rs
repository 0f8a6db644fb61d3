//! What a server session allocates, by the allocator's own count, over the fuzzer's corpus: alone in its process, so
//! that nobody else's memory is weighed.

// The functions are public for the fuzz targets, and serve one of them here.
#[allow(unreachable_pub, dead_code)]
#[path = "../fuzz/src/oracles.rs"]
mod oracles;

use std::alloc::System;
use std::path::Path;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes allocated and not freed.
fn weigh() -> usize {
    let stats = GLOBAL.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated)
}

#[test]
fn over_each_seed_in_every_piece_size() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/server_session");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a corpus file").path();
        let mut data = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for size in [0, 1, 7, 128, 255] {
            if let Some(piece) = data.get_mut(1) {
                *piece = size;
            }
            oracles::server_session_weighed(&data, &weigh);
        }
    }
}
