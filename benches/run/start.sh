#!/usr/bin/env bash
# Time from exec to the first accepted connection, over 20 starts. The shell and taskset before it are included.
#   STARTS=20 benches/run/start.sh
source "$(dirname "$0")/lib.sh"
: "${STARTS:=20}"

for server in spillway nginx_rtmp; do
    for _ in $(seq "$STARTS"); do
        if [ $server = spillway ]; then
            WARMUP=0ms DURATION=10ms spillway "start-$server" "" --publish-only >&2
        else
            WARMUP=0ms DURATION=10ms nginx_rtmp "start-$server" --publish-only >&2
        fi
        sed -n 's/.*"listening_after_ms": \([0-9.]*\).*/\1/p' "$OUT/start-$server.json"
    done 2>/dev/null | sort -n | awk -v server="$server" '
        { times[NR] = $1 }
        END { printf "%-12s starts %d, ms to listening: least %.1f, median %.1f, most %.1f\n", server, NR, times[1],
              times[int((NR + 1) / 2)], times[NR] }'
done
