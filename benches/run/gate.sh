#!/usr/bin/env bash
# Counts the instructions of the hot paths and compares them with benches/baseline.json, ±3 %.
#   benches/run/gate.sh            fails when a count is off; only reports when the toolchain is not the baseline's
#   benches/run/gate.sh --update   writes the baseline
# Needs Valgrind. Neighbours on the machine do not disturb the counts.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
export RUSTC=${RUSTC:-rustc}

if ! valgrind --version >/dev/null 2>&1; then
    echo "gate.sh: valgrind is missing: apt-get install valgrind" >&2
    exit 2
fi
cargo build --quiet --release --locked -p spillway-bench --bin gate
exec "${CARGO_TARGET_DIR:-$root/target}/release/gate" check "$@"
