//! MPEG-TS packetiser: samples in, 188-byte packets of whole segments out (pure).
//!
//! [`TsMuxer`] writes one program with at most one video and one audio track (H.264, HEVC, AAC in ADTS, MP3).
//! Its tables come from the `mpeg2ts` crate; PES packets are written straight from the samples' slices.
//! [`walk`] reads segments back and checks the rules; tests everywhere use it.

mod audio;
mod clock;
pub mod error;
pub mod es;
mod mux;
mod packet;
mod pes;
mod psi;
mod times;
pub mod walk;

pub use clock::REANCHOR_TICKS;
pub use error::TsError;
pub use mux::{ClockSource, PART_BYTES, TsMuxer, TsSegment};
pub use packet::{PACKET_BYTES, PID_AUDIO, PID_PAT, PID_PMT, PID_VIDEO, SYNC_BYTE};
pub use pes::STAMP_MASK;
pub use psi::TABLES_BYTES;
pub use times::{TICKS_PER_MS, ticks_of_ms};
