//! Enhanced RTMP capability negotiation.
