//! Spillway: a live media gateway. RTMP in; RTMP, HTTP-FLV, WebSocket-FLV and HLS out.
