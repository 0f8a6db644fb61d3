//! MPEG-TS packetiser (pure).
