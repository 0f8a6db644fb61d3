//! The hot paths as repeatable works, for the Criterion benches, the instruction counts (`gate`) and the
//! allocation test.
//!
//! One pass of a work is [`PASS_MS`] of a stream. Data is made here; nothing is random, nothing waits and
//! nothing runs on a second thread, so that a pass takes the same instructions each time.

mod chunks;
mod flv;
mod hls;
mod hub;
mod material;
mod wire;

pub use chunks::{ChunkReading, ChunkWriting};
pub use flv::{HeaderParsing, TagFinishing};
pub use hls::{Packaging, PlaylistRendering, PlaylistUpdating, TsMuxing};
pub use hub::{Attended, Buffers, Ingesting, Pushing};
pub use material::{HD, Material, Message, PASS_MS, SMALL};
pub use wire::{Published, Wire, wire};

/// A hot path with the data it works on.
pub trait Work {
    /// Does it once for [`PASS_MS`] of a stream.
    fn pass(&mut self);

    /// How many items, for which [`Named::item`] has the word, a pass is.
    fn items(&self) -> u64;
}

/// A work by its name.
#[derive(Clone, Copy)]
pub struct Named {
    /// The name in `baseline.json` and on command lines.
    pub name: &'static str,
    /// What its cost is counted for.
    pub item: &'static str,
    /// Makes its data and brings it to its steady state.
    pub make: fn() -> Box<dyn Work>,
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Named")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// [`Pushing`] with no viewer; what it costs above [`BUFFERS`] is the hub's.
pub const PUSH: &str = "hub-push";
/// What [`PUSH`] spends on making the buffers that a session would hand over.
pub const BUFFERS: &str = "message-buffers";

/// All works.
pub const ALL: &[Named] = &[
    Named {
        name: "chunk-read-hd",
        item: "message",
        make: || Box::new(ChunkReading::new(HD)),
    },
    Named {
        name: "chunk-read-small",
        item: "message",
        make: || Box::new(ChunkReading::new(SMALL)),
    },
    Named {
        name: "chunk-write-hd",
        item: "message",
        make: || Box::new(ChunkWriting::new(HD)),
    },
    Named {
        name: "chunk-write-small",
        item: "message",
        make: || Box::new(ChunkWriting::new(SMALL)),
    },
    Named {
        name: "flv-tag",
        item: "message",
        make: || Box::new(TagFinishing::new(SMALL)),
    },
    Named {
        name: "flv-header",
        item: "header",
        make: || Box::new(HeaderParsing::new(SMALL)),
    },
    Named {
        name: "ts-mux",
        item: "sample",
        make: || Box::new(TsMuxing::new(HD)),
    },
    Named {
        name: "hls-package",
        item: "sample",
        make: || Box::new(Packaging::new(HD)),
    },
    Named {
        name: "playlist-render",
        item: "playlist",
        make: || Box::new(PlaylistRendering::new()),
    },
    Named {
        name: "playlist-update",
        item: "segment",
        make: || Box::new(PlaylistUpdating::new()),
    },
    Named {
        name: BUFFERS,
        item: "message",
        make: || Box::new(Buffers::new(SMALL)),
    },
    Named {
        name: PUSH,
        item: "message",
        make: || Box::new(Pushing::new(SMALL)),
    },
    Named {
        name: "hub-push-viewer",
        item: "message",
        make: || Box::new(Attended::new(SMALL)),
    },
    Named {
        name: "ingest-small",
        item: "message",
        make: || Box::new(Ingesting::new(SMALL)),
    },
];

/// The work of this name.
pub fn named(name: &str) -> Option<Named> {
    ALL.iter().find(|work| work.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_can_be_repeated() {
        for named in ALL {
            let mut work = (named.make)();
            assert!(work.items() > 0, "{}", named.name);
            for _ in 0..3 {
                work.pass();
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|work| work.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(named(PUSH).is_some() && named(BUFFERS).is_some() && named("nothing").is_none());
    }
}
