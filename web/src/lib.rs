//! HTTP: FLV, WebSocket-FLV, HLS, the players' page, metrics and probes.
