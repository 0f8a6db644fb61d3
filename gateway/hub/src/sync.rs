//! The primitives the ring is built of, exchanged for loom's models under `cfg(loom)`.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicI64, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A slot's lock: many readers clone what it holds, one writer replaces it.
#[derive(Debug)]
pub(crate) struct SlotLock<T> {
    #[cfg(not(loom))]
    inner: parking_lot::RwLock<T>,
    #[cfg(loom)]
    inner: loom::sync::RwLock<T>,
}

impl<T: Clone> SlotLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            #[cfg(not(loom))]
            inner: parking_lot::RwLock::new(value),
            #[cfg(loom)]
            inner: loom::sync::RwLock::new(value),
        }
    }

    #[cfg(not(loom))]
    pub(crate) fn get(&self) -> T {
        self.inner.read().clone()
    }

    #[cfg(not(loom))]
    pub(crate) fn replace(&self, value: T) -> T {
        std::mem::replace(&mut self.inner.write(), value)
    }

    #[cfg(loom)]
    pub(crate) fn get(&self) -> T {
        self.inner.read().expect("loom").clone()
    }

    #[cfg(loom)]
    pub(crate) fn replace(&self, value: T) -> T {
        std::mem::replace(&mut self.inner.write().expect("loom"), value)
    }
}
