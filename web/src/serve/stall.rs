//! [`StallGuard`]: fails a connection whose peer has stopped taking bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes fail with [`io::ErrorKind::TimedOut`] once one has been pending for `stall_timeout`
/// without any progress.
///
/// Progress is a byte taken by the layer below. For a TCP socket that is the kernel's send buffer, which with
/// `TCP_NOTSENT_LOWAT` takes more as soon as half the mark has left; a peer slower than that per time-out is
/// not watching live video. The timer exists only while a write is pending.
#[derive(Debug)]
pub struct StallGuard<T> {
    inner: T,
    stall_timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    armed: bool,
    stalled: Arc<AtomicBool>,
    flushes: Arc<AtomicU64>,
}

impl<T> StallGuard<T> {
    /// Guards `inner`.
    pub fn new(inner: T, stall_timeout: Duration) -> Self {
        Self {
            inner,
            stall_timeout,
            timer: None,
            armed: false,
            stalled: Arc::default(),
            flushes: Arc::default(),
        }
    }

    /// A flag that becomes true when the guard has failed the connection.
    pub fn stalled_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stalled)
    }

    /// How often everything was flushed that had been written.
    pub(crate) fn flushes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.flushes)
    }

    fn watch<R>(&mut self, cx: &mut Context<'_>, write: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if write.is_ready() {
            self.armed = false;
            return write;
        }
        let timer = match &mut self.timer {
            Some(timer) => {
                if !self.armed {
                    timer.as_mut().reset(Instant::now() + self.stall_timeout);
                }
                timer
            }
            None => self.timer.insert(Box::pin(sleep(self.stall_timeout))),
        };
        self.armed = true;
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.stalled.store(true, Ordering::Relaxed);
        let message = "the peer took no byte for the stall time-out";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for StallGuard<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for StallGuard<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.watch(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.watch(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.inner).poll_flush(cx);
        if let Poll::Ready(Ok(())) = &flush {
            self.flushes.fetch_add(1, Ordering::Relaxed);
        }
        self.watch(cx, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shutdown = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, shutdown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn a_peer_with_a_zero_window_is_cut_at_the_time_out() {
        let (ours, _theirs) = duplex(64);
        let mut guard = StallGuard::new(ours, Duration::from_secs(10));
        let stalled = guard.stalled_flag();
        let start = Instant::now();
        let error = guard.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        assert!(stalled.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_that_takes_anything_at_all_is_kept() {
        let (ours, mut theirs) = duplex(64);
        let mut guard = StallGuard::new(ours, Duration::from_secs(10));
        let reader = tokio::spawn(async move {
            let mut buf = [0; 64];
            let mut total = 0;
            while total < 640 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                total += theirs.read(&mut buf).await.unwrap();
            }
        });
        guard.write_all(&[0; 640]).await.unwrap();
        reader.await.unwrap();
        assert!(!guard.stalled_flag().load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_stream_never_stalls() {
        let (ours, mut theirs) = duplex(64);
        let mut guard = StallGuard::new(ours, Duration::from_secs(10));
        for _ in 0..3 {
            guard.write_all(&[0; 64]).await.unwrap();
            theirs.read_exact(&mut [0; 64]).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn vectored_writes_are_guarded_too() {
        let (ours, _theirs) = duplex(8);
        let mut guard = StallGuard::new(ours, Duration::from_secs(3));
        assert!(guard.is_write_vectored());
        let slices = [IoSlice::new(b"12345678"), IoSlice::new(b"9")];
        assert_eq!(guard.write_vectored(&slices).await.unwrap(), 8);
        let error = guard.write_vectored(&slices).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
