//! Sending frames: how they look on each kind of connection, a batch on its way to one viewer, and the lanes
//! that write to all viewers who are up to date.
//!
//! A viewer has two ways of being served. Its own task reads batches from its cursor and writes them: that is
//! how it starts, and how it goes on while its connection is slow. Once it is up to date it takes a seat in a
//! [lane](lane): one task that renders a flush once and writes it to every seat's socket directly, so that a
//! frame wakes one task per runtime worker and not one per viewer. A seat whose socket does not take
//! everything is handed back to the viewer's task.

mod batch;
mod flush;
mod format;
mod lane;

pub use batch::Batch;
pub use format::Format;
pub(crate) use lane::Lanes;
pub use lane::{Left, LeftReason, Seat, Sink};
