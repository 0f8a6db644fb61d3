#!/usr/bin/env bash
# 1,000 publishers at 237 kbit/s and nobody watching.
#   PUBLISHERS=1000 benches/run/publishers.sh
source "$(dirname "$0")/lib.sh"
: "${PUBLISHERS:=1000}"

options=(--publishers "$PUBLISHERS" --publish-only --connect-limit 60s)
forget publishers-nginx-rtmp publishers-spillway
nginx_rtmp publishers-nginx-rtmp "${options[@]}"
spillway publishers-spillway "" "${options[@]}"
echo "-- $PUBLISHERS publishers, against nginx-rtmp; memory for each is in the tables above"
compare publishers-nginx-rtmp publishers-spillway
