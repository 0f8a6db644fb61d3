# Shared by the scripts beside it: where things are, and one function for each server.
# The server runs on core $SERVER_CPU, the load on core $LOAD_CPU; results go to $OUT.
set -euo pipefail

run_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$run_dir/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}/release
: "${SPILLWAY:=$target/spillway}" "${LOAD:=$target/spillway-load}" "${FLOOR:=$target/floor}" "${NGINX:=nginx}"
: "${SERVER_CPU:=0}" "${LOAD_CPU:=1}" "${DURATION:=20s}" "${WARMUP:=5s}"
: "${OUT:=/tmp/spillway-bench/results}"
mkdir -p "$OUT" /tmp/spillway-bench /dev/shm/spillway-bench

for program in "$SPILLWAY" "$LOAD" "$FLOOR"; do
    [ -x "$program" ] || { echo "$program is missing: cargo build --release -p spillway -p spillway-bench" >&2; exit 1; }
done

rtmp_port=19350 http_port=19380 nginx_rtmp_port=19351 floor_port=19352 nginx_http_port=19353

# The command that starts Spillway; arguments are keys to set.
spillway_command() {
    local command="$SPILLWAY --set rtmp.listen=127.0.0.1:$rtmp_port --set http.listen=127.0.0.1:$http_port"
    command+=" --set admin.listen=127.0.0.1:0 --set log.level=warn"
    local key
    for key in "$@"; do command+=" --set $key"; done
    echo "$command"
}

spillway_urls=(
    --publish-url "rtmp://127.0.0.1:$rtmp_port/live/s{n}"
    --flv-url "http://127.0.0.1:$http_port/live/s{n}.flv"
    --ws-url "ws://127.0.0.1:$http_port/live/s{n}.flv"
    --hls-url "http://127.0.0.1:$http_port/live/s{n}/index.m3u8"
)

# load LABEL OPTION...: one run, its table on standard output and its results in $OUT/LABEL.json.
load() {
    local label=$1
    shift
    "$LOAD" --quiet --label "$label" --server-cpu "$SERVER_CPU" --load-cpu "$LOAD_CPU" \
        --warmup "$WARMUP" --duration "$DURATION" --json "$OUT/$label.json" "$@" ||
        echo "$label: no result; the server's output is in /tmp/spillway-load-server.log" >&2
}

# spillway LABEL "KEY=VALUE ..." OPTION...
spillway() {
    local label=$1 keys=$2
    shift 2
    # shellcheck disable=SC2086 # the keys are words
    load "$label" --server-cmd "$(spillway_command $keys)" "${spillway_urls[@]}" "$@"
}

# nginx_rtmp LABEL OPTION...
nginx_rtmp() {
    local label=$1
    shift
    load "$label" --server-cmd "$NGINX -c $run_dir/nginx-rtmp.conf" \
        --publish-url "rtmp://127.0.0.1:$nginx_rtmp_port/live/s{n}" "$@"
}

# floor LABEL MERGE PLAYERS OPTION...: the stream's shape is the load tool's default.
floor() {
    local label=$1 merge=$2 players=$3
    shift 3
    load "$label" --server-cmd "$FLOOR --listen 127.0.0.1:$floor_port --merge $merge" --play-only \
        --ready-url "raw://127.0.0.1:$floor_port/" --raw-url "raw://127.0.0.1:$floor_port/" --raw "$players" "$@"
}

# compare LABEL...: a table of those results, as multiples of the first.
compare() {
    local label files=()
    for label in "$@"; do
        if [ -f "$OUT/$label.json" ]; then files+=("$OUT/$label.json"); fi
    done
    [ ${#files[@]} -lt 2 ] || "$LOAD" --compare "${files[@]}"
}

# Forgets the results of an earlier run.
forget() {
    local label
    for label in "$@"; do rm -f "$OUT/$label.json"; done
}

# cpu_ticks PID: user and system time in ticks of 10 ms.
cpu_ticks() {
    sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}
