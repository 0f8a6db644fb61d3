//! The picture's size and rate.

/// What a parameter set says about the pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Geometry {
    /// Display width in pixels, cropping applied.
    pub width: u32,
    /// Display height in pixels, cropping applied.
    pub height: u32,
    /// Frames a second as the timing information claims, `None` when absent or absurd.
    pub frame_rate: Option<f64>,
}

/// A claimed rate outside this is a wrong field, not a rate (the highest level allows 300).
const MAX_FRAME_RATE: f64 = 1000.0;

impl Geometry {
    /// Keeps `frame_rate` only when it can be one.
    pub(crate) fn new(width: u32, height: u32, frame_rate: Option<f64>) -> Option<Self> {
        if width == 0 || height == 0 {
            return None;
        }
        let frame_rate = frame_rate.filter(|rate| rate.is_finite() && *rate > 0.0 && *rate <= MAX_FRAME_RATE);
        Some(Self {
            width,
            height,
            frame_rate,
        })
    }
}
