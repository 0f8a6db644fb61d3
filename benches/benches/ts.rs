//! Two seconds of 6 Mbit/s to MPEG-TS, with and without the cutting of segments.

use criterion::{Criterion, Throughput};
use spillway_bench::work::{HD, PASS_MS, Packaging, TsMuxing, Work};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("ts");
    group.throughput(Throughput::Bytes(
        HD.bits_per_second / 8 * u64::from(PASS_MS) / 1000,
    ));
    let mut muxing = TsMuxing::new(HD);
    group.bench_function("mux", |b| b.iter(|| muxing.pass()));
    let mut packaging = Packaging::new(HD);
    group.bench_function("package", |b| b.iter(|| packaging.pass()));
    group.finish();
    criterion.final_summary();
}
