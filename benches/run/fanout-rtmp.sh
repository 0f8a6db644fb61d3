#!/usr/bin/env bash
# One 237 kbit/s stream to 1,000, 5,000 and 10,000 RTMP players: Spillway at three flush settings, nginx-rtmp, the floor.
#   PLAYERS="1000" STAGGER=0ms benches/run/fanout-rtmp.sh
source "$(dirname "$0")/lib.sh"
: "${PLAYERS:=1000 5000 10000}" "${STAGGER:=1ms}"

for players in $PLAYERS; do
    options=(--stagger "$STAGGER" --connect-limit 60s)
    labels=(floor-300ms floor-0ms nginx-rtmp spillway-auto spillway-300ms spillway-0ms)
    forget "${labels[@]/%/-$players}"
    floor "floor-300ms-$players" 300ms "$players" "${options[@]}"
    floor "floor-0ms-$players" 0ms "$players" "${options[@]}"
    nginx_rtmp "nginx-rtmp-$players" --rtmp "$players" "${options[@]}"
    spillway "spillway-auto-$players" "play.flush=auto" --rtmp "$players" "${options[@]}"
    spillway "spillway-300ms-$players" "play.flush=300ms" --rtmp "$players" "${options[@]}"
    spillway "spillway-0ms-$players" "play.flush=0ms" --rtmp "$players" "${options[@]}"
    echo "-- $players RTMP players, against nginx-rtmp"
    compare "nginx-rtmp-$players" "spillway-auto-$players" "spillway-300ms-$players" "spillway-0ms-$players"
    echo "-- $players RTMP players, against the floor at 300 ms"
    compare "floor-300ms-$players" "spillway-300ms-$players" "spillway-auto-$players"
    echo "-- $players RTMP players, against the floor at 0 ms"
    compare "floor-0ms-$players" "spillway-0ms-$players" "spillway-auto-$players" "nginx-rtmp-$players"
done
