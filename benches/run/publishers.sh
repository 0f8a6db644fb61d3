#!/usr/bin/env bash
# 1,000 publishers at 237 kbit/s and nobody watching.
#   PUBLISHERS=1000 benches/run/publishers.sh
# After this warm-up the rings are full, and memory is used again instead of asked of the kernel, as in the rest of a
# stream's life.
: "${WARMUP:=18s}"
source "$(dirname "$0")/lib.sh"
: "${PUBLISHERS:=1000}"

options=(--publishers "$PUBLISHERS" --publish-only --connect-limit 60s)
forget publishers-nginx-rtmp publishers-spillway
nginx_rtmp publishers-nginx-rtmp "${options[@]}"
spillway publishers-spillway "" "${options[@]}"
echo "-- $PUBLISHERS publishers, against nginx-rtmp; memory for each is in the tables above"
compare publishers-nginx-rtmp publishers-spillway
