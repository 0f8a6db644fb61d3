//! The stream registry, the frame ring and the HLS store: the heart of Spillway, usable as a library.
//!
//! A publisher gets a [`Publisher`] from [`Hub::publish`] and pushes RTMP messages through it; each becomes
//! one [`Frame`], framed once for every output. Viewers get a [`Viewer`] from [`Hub::attach`], packagers and
//! analysers a [`Reader`]. The hub knows no socket.

mod alone;
mod cursor;
mod egress;
mod error;
mod frame;
pub mod hls;
mod hub;
mod init;
mod key;
mod options;
mod per_ip;
mod publisher;
mod reader;
mod repair;
mod ring;
mod session;
mod snapshot;
mod stats;
mod stream;
mod sync;
mod terms;
mod viewer;
mod writer;

pub use egress::{Batch, Format, Left, LeftReason, Seat, Sink};
pub use error::{AttachError, PublishError};
pub use frame::{Frame, MESSAGE_STREAM_ID, Role};
pub use hub::Hub;
pub use init::{Init, Track};
pub use key::{KeyError, MAX_KEY_BYTES, StreamKey};
pub use options::{Flush, HlsMode, HlsOptions, HubOptions};
pub use per_ip::{PerIp, Place};
pub use publisher::Publisher;
pub use reader::{Reader, ReaderEvent};
pub use session::{EndReason, Protocol, SessionId, SessionInfo};
pub use snapshot::{StreamSnapshot, TrackSnapshot};
pub use spillway_flv::tag::TagType;
pub use stats::{Counter, DropReason, Limit, Stats, StreamStats};
pub use stream::{Phase, Stream};
pub use terms::PublishTerms;
pub use viewer::{Tracks, Viewer};
