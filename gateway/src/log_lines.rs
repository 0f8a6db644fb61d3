//! [`LogLines`]: log lines on their way out, written by a thread of their own.
//!
//! Whoever logs never waits for the disk or the reader of a pipe, and never fails because one is full: a line that
//! cannot be queued or written is lost and counted.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait while nobody takes them: some seconds of a busy log, about 1 MiB.
const QUEUE_LINES: usize = 4096;
/// How long the end of the process waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it looks for a place in a full queue.
const FLUSH_RETRY: Duration = Duration::from_millis(5);

/// Lines of this process that were lost, in the order of [`lost_by_reason`].
static LOST: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// How many lines were lost so far: because the queue was full, and because writing failed.
pub(crate) fn lost_by_reason() -> [(&'static str, u64); 2] {
    let [queue, write] = LOST.each_ref().map(|count| count.load(Ordering::Relaxed));
    [("queue", queue), ("write", write)]
}

enum Item {
    Line(Vec<u8>),
    /// Is answered once all lines before it are out.
    Flush(SyncSender<()>),
}

/// Where lines are queued. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct LogLines(SyncSender<Item>);

impl LogLines {
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// What the system says when it has no thread to give.
    pub(crate) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE_LINES);
        std::thread::Builder::new()
            .name("spillway-log".into())
            .spawn(move || write_all(&receiver, out))?;
        Ok(Self(sender))
    }

    /// Waits until what is queued is written, or a second has passed.
    pub(crate) fn flush(&self) {
        let (done, wait) = sync_channel(1);
        let began = Instant::now();
        let mut item = Item::Flush(done);
        while let Err(TrySendError::Full(back)) = self.0.try_send(item) {
            if began.elapsed() > FLUSH_TIMEOUT {
                return;
            }
            // Nobody answers yet: this only passes the time.
            let _ = wait.recv_timeout(FLUSH_RETRY);
            item = back;
        }
        // Whether in time or not: the process ends.
        let _ = wait.recv_timeout(FLUSH_TIMEOUT.saturating_sub(began.elapsed()));
    }
}

impl Write for &LogLines {
    /// Takes one whole line: the formatter writes each by one call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.0.try_send(Item::Line(line.to_vec()))
        {
            LOST[0].fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

fn write_all(lines: &Receiver<Item>, mut out: impl Write) {
    while let Ok(item) = lines.recv() {
        match item {
            Item::Line(line) => {
                if out.write_all(&line).is_err() {
                    LOST[1].fetch_add(1, Ordering::Relaxed);
                }
            }
            Item::Flush(done) => {
                let _ = out.flush();
                // Nobody waits any more after the time-out.
                let _ = done.try_send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Hands on what is written, and lets each write wait for leave.
    struct Gated {
        leave: Receiver<io::Result<()>>,
        written: mpsc::SyncSender<Vec<u8>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.leave.recv().map_err(io::Error::other)??;
            let _ = self.written.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// One test, because the counts are the process's.
    #[test]
    fn lines_that_nobody_takes_are_lost_and_counted_and_the_log_goes_on() {
        let (give, leave) = sync_channel(QUEUE_LINES * 2);
        let (written, read) = sync_channel(QUEUE_LINES * 2);
        let lines = LogLines::start(Gated { leave, written }).unwrap();
        let before = lost_by_reason().map(|(_, lines)| lines);

        for _ in 0..QUEUE_LINES + 100 {
            assert_eq!((&lines).write(b"a line\n").unwrap(), 7);
        }
        let not_queued = lost_by_reason()[0].1 - before[0];
        // One line is in the writer's hands.
        assert!((99..=100).contains(&not_queued), "{not_queued}");

        give.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        for _ in 0..QUEUE_LINES + 100 {
            give.send(Ok(())).unwrap();
        }
        lines.flush();
        assert_eq!(lost_by_reason()[1].1 - before[1], 1);
        let taken = QUEUE_LINES as u64 + 100 - not_queued - 1;
        assert_eq!(read.try_iter().count() as u64, taken);

        (&lines).write_all(b"a later one\n").unwrap();
        lines.flush();
        assert_eq!(read.try_iter().last().unwrap(), b"a later one\n");
    }
}
