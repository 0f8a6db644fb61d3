//! Codecs, parameter sets, samples and time: the media vocabulary every other crate shares (pure).
