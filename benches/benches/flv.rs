//! FLV tags finished in place, and the heads of bodies.

use criterion::{BatchSize, Criterion, Throughput};
use spillway_bench::work::{HeaderParsing, Material, SMALL, Work};
use spillway_flv::tag::finish;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("flv");
    let material = Material::new(SMALL);
    group.throughput(Throughput::Elements(material.count()));
    group.bench_function("tag", |b| {
        let finish_all = |buffers: Vec<Vec<u8>>| -> Vec<_> {
            let messages = buffers.into_iter().zip(&material.messages);
            messages
                .map(|(buffer, message)| finish(buffer, message.kind, message.timestamp_ms))
                .collect()
        };
        b.iter_batched(|| material.buffers(), finish_all, BatchSize::SmallInput);
    });
    let mut parsing = HeaderParsing::new(SMALL);
    group.throughput(Throughput::Elements(parsing.items()));
    group.bench_function("header", |b| b.iter(|| parsing.pass()));
    group.finish();
    criterion.final_summary();
}
