#!/usr/bin/env bash
# What a CPU quota does to viewers: the same work with a whole core, with both cores, and in a real control group (version
# 1 or 2) with quotas of 200 %, 100 % and 50 % (docker run --cpus=2, 1, 0.5). Needs root. About 4 minutes.
#   QUOTAS="50" PLAYERS=1000 benches/run/quota.sh
DURATION=${DURATION:-12s} WARMUP=${WARMUP:-3s}
source "$(dirname "$0")/lib.sh"
: "${QUOTAS:=200 100 50}" "${PLAYERS:=1000}" "${PERIOD_US:=100000}"

admin_port=19390
out=$OUT/quota
rm -rf "$out" && mkdir -p "$out"
server=''

# Makes the group and says how a quota is set in it.
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    version=2 group=/sys/fs/cgroup/spillway-bench
    echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
else
    version=1 group=/sys/fs/cgroup/cpu/spillway-bench
fi
mkdir -p "$group" || { echo "no control group can be made: root is needed" >&2; exit 1; }
[ -f "$group/cpu.cfs_quota_us" ] || [ -f "$group/cpu.max" ] ||
    { rmdir "$group"; echo "this kernel has no CPU quotas (CONFIG_CFS_BANDWIDTH)" >&2; exit 1; }

stop() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server"; } || true
    server=''
}
trap 'stop; rmdir "$group"' EXIT

# quota PERCENT: sets it.
quota() {
    if [ $version = 1 ]; then
        echo "$PERIOD_US" >"$group/cpu.cfs_period_us"
        echo $((PERIOD_US * $1 / 100)) >"$group/cpu.cfs_quota_us"
    else
        echo "$((PERIOD_US * $1 / 100)) $PERIOD_US" >"$group/cpu.max"
    fi
}

# start GROUP CORES: the gateway in a control group ('' for none) on these cores.
start() {
    local command
    command=$(spillway_command)
    command=${command/admin.listen=127.0.0.1:0/admin.listen=127.0.0.1:$admin_port}
    # shellcheck disable=SC2086,SC2016 # the command is words; the inner shell expands the rest
    taskset -c "$2" sh -c '[ -z "$1" ] || echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh "$1" $command \
        >"$out/server.log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        curl -fs "http://127.0.0.1:$admin_port/metrics" >/dev/null && return
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$out/server.log" >&2
    exit 1
}

# number FILE BLOCK KEY: the first KEY behind BLOCK in a result.
number() {
    awk -v block="\"$2\":" -v key="\"$3\":" '
        index($0, block) { inside = 1 }
        inside && index($0, key) { sub(/.*: */, ""); sub(/,.*/, ""); print; exit }' "$1"
}

# late SECONDS: the share of the probes that came later than this, from our own metric.
late() {
    awk -v le="le=\"$1\"" '
        index($0, "spillway_scheduler_delay_seconds_bucket") && index($0, le) { within = $2 }
        index($0, "spillway_scheduler_delay_seconds_count") { all = $2 }
        END { printf "%.1f", all ? (all - within) * 100 / all : 0 }' "$out/metrics"
}

# row WORK LABEL GROUP CORES OPTION...: one run and its line.
row() {
    local work=$1 label=$2 json=$OUT/quota-$1-$2.json in_group=$3 cores=$4
    shift 4
    forget "quota-$work-$label"
    start "$in_group" "$cores"
    load "quota-$work-$label" --server-pid "$server" "${spillway_urls[@]}" "$@" >"$out/$work-$label.txt"
    curl -fs "http://127.0.0.1:$admin_port/metrics" >"$out/metrics"
    [ -f "$json" ] && awk -v label="$label" -v workers="$(awk '$1 == "spillway_workers" { print $2 }' "$out/metrics")" \
        -v p50="$(number "$json" jitter_added_ms p50)" -v p99="$(number "$json" jitter_added_ms p99)" \
        -v p999="$(number "$json" jitter_added_ms p999)" -v delay="$(number "$json" delay_ms p99)" \
        -v user="$(number "$json" server user_s)" -v kernel="$(number "$json" server system_s)" \
        -v periods="$(number "$json" server throttled_periods)" -v stopped="$(number "$json" server throttled_s)" \
        -v delivered="$(number "$json" players delivered_share)" -v late10="$(late 0.01)" -v late50="$(late 0.05)" '
        BEGIN { printf "%-12s %7d %8.2f %8.2f %9.2f %9.1f %6.2f %9.1f %10d %9.2f %8s %8s\n", label, workers, p50, p99, p999,
            delay, user + kernel, delivered * 100, periods, stopped, late10, late50 }'
    grep -h ' WARN ' "$out/server.log" | tail -1 >>"$out/warnings.txt" || true
    stop
}

# work NAME OPTION...: all rows of one work.
work() {
    local name=$1 percent both="$SERVER_CPU,$LOAD_CPU"
    shift
    printf '%-12s %7s %8s %8s %9s %9s %6s %9s %10s %9s %8s %8s\n' run workers 'jit. p50' 'jit. p99' 'jit. p99.9' 'delay p99' \
        'CPU s' 'deliv. %' throttled 'for s' '>10ms %' '>50ms %'
    row "$name" whole-core '' "$SERVER_CPU" "$@"
    row "$name" both-cores '' "$both" "$@"
    for percent in $QUOTAS; do
        quota "$percent"
        row "$name" "quota-$percent%" "$group" "$both" "$@"
    done
}

: "${FANOUT:=--publishers 4 --rtmp $PLAYERS}"
: "${RED5:=--publishers 20 --rtmp 60 --bitrate 6000000 --audio-bitrate 128000 --fps 30 --gop 60}"
echo "control groups version $version, period $PERIOD_US us, window $DURATION; jitter is what the server added, times in ms;"
echo "throttled: periods and seconds in the window; >10ms and >50ms: our own probes woken later than that, in the whole run"
echo "-- $FANOUT, 237 kbit/s each"
# shellcheck disable=SC2086 # the options are words
work fanout $FANOUT
echo "-- $RED5"
# shellcheck disable=SC2086
work red5 $RED5
[ ! -s "$out/warnings.txt" ] || { echo "-- what the gateway said of it"; sort -u "$out/warnings.txt" | sed 's/.*WARN //' | sort -u | head -5; }
