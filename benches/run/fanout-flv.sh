#!/usr/bin/env bash
# One 237 kbit/s stream to 1,000 HTTP-FLV and 1,000 WS-FLV players, against as many RTMP players of the same server.
#   PLAYERS=1000 benches/run/fanout-flv.sh
source "$(dirname "$0")/lib.sh"
: "${PLAYERS:=1000}"

for players in $PLAYERS; do
    for flush in auto 300ms; do
        labels=()
        for protocol in rtmp flv ws; do
            label=$protocol-$flush-$players
            labels+=("$label")
            forget "$label"
            spillway "$label" "play.flush=$flush" "--$protocol" "$players" --connect-limit 60s
        done
        echo "-- $players players, flush $flush, against RTMP"
        compare "${labels[@]}"
    done
done
