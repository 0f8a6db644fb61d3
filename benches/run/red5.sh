#!/usr/bin/env bash
# Red5's work: 20 publishers of 1080p30 at 6 Mbit/s with AAC, 3 RTMP players each, the server on one core.
#   B_FRAMES=2 benches/run/red5.sh
# After this warm-up the rings are full, and memory is used again instead of asked of the kernel, as in the rest of a
# stream's life.
: "${WARMUP:=16s}"
source "$(dirname "$0")/lib.sh"
: "${B_FRAMES:=0}"

options=(--publishers 20 --rtmp 60 --bitrate 6000000 --audio-bitrate 128000 --fps 30 --gop 60 --b-frames "$B_FRAMES")
forget red5-nginx-rtmp red5-spillway-auto red5-spillway-0ms
nginx_rtmp red5-nginx-rtmp "${options[@]}"
spillway red5-spillway-auto "play.flush=auto" "${options[@]}"
spillway red5-spillway-0ms "play.flush=0ms" "${options[@]}"
echo "-- 20 publishers, 60 players, 6 Mbit/s each, against nginx-rtmp"
compare red5-nginx-rtmp red5-spillway-auto red5-spillway-0ms
