//! Frames into a full ring: alone, and with a viewer that looks for each. Buffers are made outside the time; that a
//! frame which leaves the ring is freed is in it.

use criterion::{BatchSize, Criterion, Throughput};
use spillway_bench::work::{Attended, HD, Ingesting, Pushing, SMALL, Work};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("ring");
    for (name, shape) in [("6 Mbit", HD), ("237 kbit", SMALL)] {
        let mut pushing = Pushing::new(shape);
        let material = pushing.material().clone();
        group.throughput(Throughput::Elements(material.count()));
        group.bench_function(format!("push {name}, no viewer"), |b| {
            b.iter_batched(
                || material.buffers(),
                |buffers| pushing.push_all(buffers),
                BatchSize::SmallInput,
            );
        });
        let mut attended = Attended::new(shape);
        group.bench_function(format!("push {name}, one viewer"), |b| {
            b.iter_batched(
                || material.buffers(),
                |buffers| attended.push_all(buffers),
                BatchSize::SmallInput,
            );
        });
        let mut ingesting = Ingesting::new(shape);
        group.bench_function(format!("bytes of {name} to the ring, no viewer"), |b| {
            b.iter(|| ingesting.pass());
        });
    }
    group.finish();
    criterion.final_summary();
}
