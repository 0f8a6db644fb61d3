//! A window of the default length: its playlist, and a new segment for it.

use criterion::{Criterion, Throughput};
use spillway_bench::work::{PlaylistRendering, PlaylistUpdating, Work};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("playlist");
    let mut rendering = PlaylistRendering::new();
    group.throughput(Throughput::Elements(rendering.items()));
    group.bench_function("render", |b| b.iter(|| rendering.pass()));
    let mut updating = PlaylistUpdating::new();
    group.throughput(Throughput::Elements(updating.items()));
    group.bench_function("update", |b| b.iter(|| updating.pass()));
    group.finish();
    criterion.final_summary();
}
