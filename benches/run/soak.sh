#!/usr/bin/env bash
# Players and publishers come and go, and afterwards nothing may be left of them in the server: memory, file
# descriptors, threads, gauges.
#   DURATION=600 benches/run/soak.sh     seconds; 10 minutes are the default
# 200 players join and leave each second (a quarter each by RTMP, HTTP-FLV, WebSocket and HLS), 50 publishers a minute
# leave and come back. Fails when something is not flat. Samples stay in $OUT/soak/samples.tsv.
DURATION=${DURATION:-600}
source "$(dirname "$0")/lib.sh"
: "${PLAYERS_PER_SECOND:=200}" "${RECONNECTS_PER_MINUTE:=50}" "${STREAMS:=10}"
# The same load before the first sample: rings (30 s), windows, pools and the allocator's arenas are full after it.
: "${SOAK_WARMUP:=45}"
# Memory that may have grown: by the hundredth, and by MiB.
: "${RSS_PERCENT:=10}" "${RSS_MIB:=4}"

admin_port=19390
# What stays after a stream's end, and how long: short, so that the quiet comes soon.
linger=5
out=$OUT/soak
rm -rf "$out" && mkdir -p "$out"
command=$(spillway_command publish.linger=${linger}s hls.idle_stop=${linger}s hls.end_retain=${linger}s)
command=${command/admin.listen=127.0.0.1:0/admin.listen=127.0.0.1:$admin_port}
# shellcheck disable=SC2086 # the command is words
taskset -c "$SERVER_CPU" $command >"$out/server.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server"' EXIT
for _ in $(seq 100); do
    curl -fs "http://127.0.0.1:$admin_port/metrics" >/dev/null && break
    kill -0 "$server" 2>/dev/null || { cat "$out/server.log" >&2; exit 1; }
    sleep 0.1
done

# metric NAME: the sum over its labels.
metric() {
    awk -v name="$1" '$1 == name || index($1, name "{") == 1 { sum += $2 } END { printf "%d", sum }' "$out/metrics"
}

# sample LABEL: one line of the table; also sets rss (KiB), fds, threads, streams, viewers, connections.
sample() {
    curl -fs "http://127.0.0.1:$admin_port/metrics" >"$out/metrics"
    rss=$(awk '/^RssAnon/ { print $2 }' "/proc/$server/status")
    threads=$(awk '/^Threads/ { print $2 }' "/proc/$server/status")
    fds=$(find "/proc/$server/fd" -mindepth 1 2>/dev/null | wc -l)
    streams=$(metric spillway_streams) viewers=$(metric spillway_viewers) connections=$(metric spillway_connections)
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$rss" "$fds" "$threads" "$streams" "$viewers" \
        "$connections" "$(metric spillway_ring_bytes)" "$(metric spillway_hls_window_bytes)" \
        "$(metric spillway_publishes_total)" | tee -a "$out/samples.tsv" | column -t -s $'\t' -o '  '
}

# One publisher on stream $1 until second $2, on a fixed schedule of coming and going.
publisher() {
    local period_ms=$((60000 * STREAMS / RECONNECTS_PER_MINUTE)) n=0 now length at
    at=$((period_ms * $1 / STREAMS))
    while :; do
        now=$(milliseconds)
        [ "$now" -ge $(($2 * 1000)) ] && return
        # The first one begins at once and is cut short, so that they do not all leave together. A run is 1.5 s longer
        # than its window.
        length=$((period_ms - 1800))
        [ $n -eq 0 ] && length=$((at > 0 ? at : length))
        "$LOAD" --quiet --load-cpu "$LOAD_CPU" --publish-only --publishers 1 --warmup 0ms --duration "${length}ms" \
            --publish-url "rtmp://127.0.0.1:$rtmp_port/live/s$1" --json "$out/publisher-$1-$n.json" \
            >/dev/null 2>>"$out/load.log" || echo "publisher $1-$n failed" >>"$out/load.log"
        n=$((n + 1))
    done
}

# $1 players that join within a second and leave two later.
players() {
    local each=$(($1 / 4))
    "$LOAD" --quiet --load-cpu "$LOAD_CPU" --play-only --publishers "$STREAMS" "${spillway_urls[@]}" \
        --rtmp $each --flv $each --ws $each --hls $each --stagger $((1000 / $1))ms --hls-spread 1s \
        --warmup 0ms --duration 1s --connect-limit 5s --json "$out/players-$2.json" \
        >/dev/null 2>>"$out/load.log" || echo "players $2 failed" >>"$out/load.log"
}

began=$(date +%s%3N)
milliseconds() { echo $(($(date +%s%3N) - began)); }

# soak SECONDS LABEL: the load for so long, a sample every tenth of it, then quiet.
soak() {
    local end=$(($(milliseconds) / 1000 + $1)) stream next=0 every=$(($1 / 10)) jobs=() sampled=0 n=0 job
    for stream in $(seq 0 $((STREAMS - 1))); do
        publisher "$stream" "$end" &
        jobs+=($!)
    done
    sleep 1
    local start
    start=$(milliseconds)
    while [ "$(milliseconds)" -lt $((end * 1000)) ]; do
        players "$PLAYERS_PER_SECOND" "$2-$n" &
        jobs+=($!)
        n=$((n + 1))
        if [ $n -gt $((sampled + (every > 0 ? every : 1) - 1)) ]; then
            sample "$2-${n}s"
            sampled=$n
        fi
        next=$((start + n * 1000 - $(milliseconds)))
        [ $next -gt 0 ] && sleep "$(printf '%d.%03d' $((next / 1000)) $((next % 1000)))"
    done
    for job in "${jobs[@]}"; do wait "$job" || true; done
    # Streams end after the linger, their playlists after as long again.
    sleep $((2 * linger + 3))
}

echo "-- $PLAYERS_PER_SECOND players a second, $RECONNECTS_PER_MINUTE publisher reconnects a minute, $STREAMS streams"
printf 'when\trss_kib\tfds\tthreads\tstreams\tviewers\tconnections\tring_bytes\thls_bytes\tpublishes\n' |
    tee "$out/samples.tsv"
sample idle
soak "$SOAK_WARMUP" warm-up
sample before
before_rss=$rss before_fds=$fds before_threads=$threads before_publishes=$(metric spillway_publishes_total)
soak "$DURATION" load
sample after

# Memory under load: the middle third of the samples against the last one.
read -r middle last < <(awk -F'\t' '/^load-/ { rss[n++] = $2 } END {
    third = int(n / 3); if (third < 1) third = 1
    for (i = third; i < 2 * third; i++) middle += rss[i]; for (i = n - third; i < n; i++) last += rss[i]
    printf "%d %d\n", middle / third, last / third }' "$out/samples.tsv")

not_flat=0
# flat WHAT BEFORE AFTER LIMIT
flat() {
    local word=flat
    [ "$3" -le "$4" ] || { word='NOT FLAT'; not_flat=$((not_flat + 1)); }
    printf '%-34s %10s -> %-10s %s\n' "$1" "$2" "$3" "$word"
}
limit() { echo $(($1 * (100 + RSS_PERCENT) / 100 + RSS_MIB * 1024)); }
echo "-- after $DURATION s"
flat "memory at rest, KiB" "$before_rss" "$rss" "$(limit "$before_rss")"
flat "memory under load, KiB" "$middle" "$last" "$(limit "$middle")"
flat "file descriptors" "$before_fds" "$fds" "$before_fds"
flat "threads" "$before_threads" "$threads" "$before_threads"
flat "streams" 0 "$streams" 0
flat "viewers" 0 "$viewers" 0
# The connection that asks for the metrics is one itself where they are counted.
flat "connections" 0 "$connections" 1
flat "HLS bytes" 0 "$(metric spillway_hls_window_bytes)" 0
flat "ring bytes" 0 "$(metric spillway_ring_bytes)" 0
flat "task panics" 0 "$(metric spillway_task_panics_total)" 0
python3 - "$out" "$(($(metric spillway_publishes_total) - before_publishes - STREAMS))" "$DURATION" <<'PY'
import collections, glob, json, sys
out, publishes, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
asked, played, losses, altered = collections.Counter(), collections.Counter(), collections.Counter(), 0
for path in glob.glob(out + "/players-load-*.json"):
    for protocol, seen in json.load(open(path))["players"].items():
        asked[protocol] += seen["players"]
        played[protocol] += seen["played"]
        altered += seen["altered"]
        losses.update({f"{protocol}: {why}": count for why, count in seen["losses"].items()})
print(f"{sum(asked.values()) / seconds:.0f} players a second joined, {publishes * 60 / seconds:.0f} publishers a minute came back")
for protocol in sorted(asked):
    print(f"{protocol:5} {asked[protocol]} players, {played[protocol]} got media")
print(f"frames altered: {altered}")
for why, count in losses.most_common(10):
    print(f"lost: {count} x {why}")
PY
[ $not_flat -eq 0 ]
