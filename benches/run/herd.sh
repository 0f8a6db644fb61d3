#!/usr/bin/env bash
# An HLS herd: 1,000 and 5,000 players that poll once per target duration and get each segment once, with 10 RTMP
# players of the same stream beside them. First with polls spread evenly, then with all players joining at once.
#   PLAYERS=1000 BITRATE=237000 benches/run/herd.sh
source "$(dirname "$0")/lib.sh"
: "${PLAYERS:=1000 5000}" "${BITRATE:=237000}"

for players in $PLAYERS; do
    options=(--hls "$players" --rtmp 10 --bitrate "$BITRATE" --connect-limit 60s)
    spillway "herd-spread-$players" "" "${options[@]}" --hls-spread 2s
    spillway "herd-crowd-$players" "" "${options[@]}" --hls-spread 0ms --stagger 0ms
done
