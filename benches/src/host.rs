//! What the operating system has to be asked for: cores, file descriptors.

use crate::error::LoadError;
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps the calling thread, and the threads it makes, on core `cpu`.
///
/// # Errors
/// [`LoadError::Io`] if the core does not exist or is not ours to use.
pub fn pin_to(cpu: usize) -> Result<(), LoadError> {
    let mut cores = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(LoadError::Options(format!("there is no core {cpu}")));
    }
    cores.set(cpu);
    sched_setaffinity(None, &cores).map_err(LoadError::errno(format!("pin to core {cpu}")))
}

/// Raises the limit of open files as far as it goes and returns it.
pub fn raise_open_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What cannot be raised shows when sockets run out, with a message of its own.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Makes timers of the calling thread exact to the microsecond instead of 50.
pub fn sharpen_timers() {
    let slack = std::num::NonZeroU64::new(1_000);
    // Without it publishers run up to 50 µs late, which the report shows.
    let _ = rustix::thread::set_current_timer_slack(slack);
}
