//! AMF0 and AMF3 values, bounded in depth and size (pure).
