//! FLV tags and their audio and video headers, legacy and enhanced (pure).
