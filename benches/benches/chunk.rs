//! RTMP chunks, read and written.

use criterion::{Criterion, Throughput};
use spillway_bench::work::{ChunkReading, ChunkWriting, HD, SMALL, Work};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("chunk");
    for (name, shape) in [("6 Mbit", HD), ("237 kbit", SMALL)] {
        let mut reading = ChunkReading::new(shape);
        group.throughput(Throughput::Bytes(reading.bytes()));
        group.bench_function(format!("read 2 s of {name}"), |b| b.iter(|| reading.pass()));
        let mut writing = ChunkWriting::new(shape);
        group.throughput(Throughput::Bytes(writing.bytes()));
        group.bench_function(format!("write 2 s of {name}"), |b| b.iter(|| writing.pass()));
    }
    group.finish();
    criterion.final_summary();
}
