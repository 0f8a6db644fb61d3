#!/usr/bin/env bash
# HLS as fast as possible: wrk with 100 connections asks for one segment of about 1 MB, then for the media playlist,
# from Spillway and from nginx with sendfile, which has copies of the same two files in a tmpfs.
# Rates are limited by wrk, which has one core; what counts is the server's CPU time per gigabit and per request.
#   SECONDS_EACH=10 benches/run/hls.sh
source "$(dirname "$0")/lib.sh"
: "${SECONDS_EACH:=8}" "${CONNECTIONS:=100}"
command -v wrk curl > /dev/null || { echo "wrk and curl are needed: apt-get install wrk curl" >&2; exit 1; }

pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null || true; done; wait; }
trap stop EXIT

# hammer NAME PID URL BYTES: prints requests per second and CPU time.
hammer() {
    local name=$1 pid=$2 url=$3 bytes=$4 before after requests errors
    taskset -c "$LOAD_CPU" wrk -t1 -c"$CONNECTIONS" -d1s "$url" > /dev/null
    before=$(cpu_ticks "$pid")
    taskset -c "$LOAD_CPU" wrk -t1 -c"$CONNECTIONS" -d"${SECONDS_EACH}s" --latency "$url" > "$OUT/wrk-$name.txt"
    after=$(cpu_ticks "$pid")
    requests=$(awk '/requests in/ { print $1 }' "$OUT/wrk-$name.txt")
    errors=$(awk -F: '/Non-2xx/ { print $2 }' "$OUT/wrk-$name.txt")
    awk -v name="$name" -v requests="$requests" -v ticks=$((after - before)) -v bytes="$bytes" \
        -v seconds="$SECONDS_EACH" -v errors="${errors:-0}" 'BEGIN {
        cpu = ticks / 100; gigabits = requests * bytes * 8 / 1e9
        printf "%-20s %9.0f requests/s  %9.0f per CPU s  %7.2f Gbit/s  %.4f CPU s per Gbit  core %.0f %%  errors %d\n",
            name, requests / seconds, requests / cpu, gigabits / seconds, cpu / gigabits, cpu / seconds * 100, errors
    }'
}

taskset -c "$SERVER_CPU" $(spillway_command hls.mode=always) 2> /tmp/spillway-bench/spillway.log &
spillway_pid=$!
pids+=("$spillway_pid")
sleep 1
taskset -c "$LOAD_CPU" "$LOAD" --quiet --publish-only --publish-url "rtmp://127.0.0.1:$rtmp_port/live/s{n}" \
    --bitrate 4000000 --audio-bitrate 128000 --duration 1m --warmup 1m > /dev/null &
pids+=("$!")
stream=http://127.0.0.1:$http_port/live/s0
for _ in $(seq 30); do
    sleep 1
    segment=$(curl -fs "$stream/media.m3u8" | grep -v '^#' | tail -n1) || continue
    [ "$(curl -fs "$stream/media.m3u8" | grep -vc '^#')" -lt 6 ] || break
done
files=/dev/shm/spillway-bench
curl -fs "$stream/$segment" -o "$files/segment.ts"
curl -fs "$stream/media.m3u8" -o "$files/media.m3u8"
segment_bytes=$(stat -c %s "$files/segment.ts") playlist_bytes=$(stat -c %s "$files/media.m3u8")
echo "segment of $segment_bytes bytes, playlist of $playlist_bytes bytes"
hammer segment-spillway "$spillway_pid" "$stream/$segment" "$segment_bytes"
hammer playlist-spillway "$spillway_pid" "$stream/media.m3u8" "$playlist_bytes"

taskset -c "$SERVER_CPU" "$NGINX" -c "$run_dir/nginx-http.conf" &
nginx_pid=$!
pids+=("$nginx_pid")
sleep 1
hammer segment-nginx "$nginx_pid" "http://127.0.0.1:$nginx_http_port/segment.ts" "$segment_bytes"
hammer playlist-nginx "$nginx_pid" "http://127.0.0.1:$nginx_http_port/media.m3u8" "$playlist_bytes"
