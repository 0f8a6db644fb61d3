//! Logs: where they go and in which form.

use std::io::{self, IsTerminal};

use spillway_config::{Log, LogFormat, LogLevel};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::log_lines::LogLines;

/// The environment variable that overrides `log.level`, and can set it per module.
pub(crate) const FILTER_VARIABLE: &str = "RUST_LOG";

/// Why there are no logs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TelemetryError {
    /// `RUST_LOG` does not read.
    #[error(
        "environment variable {FILTER_VARIABLE}: {source}: expected for example info, or info,spillway_hub=debug"
    )]
    BadFilter {
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// There is no thread that could write them.
    #[error("logs need a thread of their own, and the system gives none: {source}")]
    NoThread {
        /// What the system says.
        source: io::Error,
    },
    /// The process has a logger already.
    #[error("logging was set up already: {source}")]
    AlreadySet {
        /// What refused the second one.
        source: tracing_subscriber::util::TryInitError,
    },
}

/// Sends the process's logs to standard error, as `log` and `RUST_LOG` say, panics among them. Flush the lines given
/// back before the process ends.
///
/// # Errors
/// [`TelemetryError`] if `RUST_LOG` does not read, there is no thread to be had, or on a second call.
pub(crate) fn init(log: &Log) -> Result<LogLines, TelemetryError> {
    let variable = std::env::var(FILTER_VARIABLE).ok();
    let filter = filter(log.level, variable.as_deref())?;
    let lines = LogLines::start(io::stderr()).map_err(|source| TelemetryError::NoThread { source })?;
    subscriber(log.format, filter, io::stderr().is_terminal(), lines.clone())
        .try_init()
        .map_err(|source| TelemetryError::AlreadySet { source })?;
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no words");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic: {text}");
    }));
    Ok(lines)
}

/// The filter of `level`, unless the `variable` says otherwise.
fn filter(level: LogLevel, variable: Option<&str>) -> Result<EnvFilter, TelemetryError> {
    if let Some(directives) = variable.filter(|text| !text.trim().is_empty()) {
        return EnvFilter::try_new(directives).map_err(|source| TelemetryError::BadFilter { source });
    }
    // Our crates all begin with this name. Below "warn" the libraries speak of their own affairs.
    let libraries = if level == LogLevel::Error { "error" } else { "warn" };
    Ok(EnvFilter::new(format!("{libraries},spillway={}", level.as_str())))
}

fn subscriber<W>(
    format: LogFormat,
    filter: EnvFilter,
    is_terminal: bool,
    writer: W,
) -> Box<dyn tracing::Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(is_terminal);
    match format {
        LogFormat::Json => Box::new(builder.json().flatten_event(true).with_span_list(false).finish()),
        _ => Box::new(builder.with_target(false).finish()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().map_err(|_| io::ErrorKind::Other)?.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: LogLevel, variable: Option<&str>) -> Vec<String> {
        let memory = Memory::default();
        let writer = memory.clone();
        let filter = filter(level, variable).unwrap();
        let subscriber = subscriber(format, filter, false, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "spillway_hub::stream", stream = "live/a", "session started");
            tracing::debug!(target: "spillway::ingest", "chunk size set");
            tracing::info!(target: "hyper::proto", "connection made");
        });
        let bytes = memory.0.lock().unwrap().clone();
        String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn people_get_plain_lines() {
        let lines = logged(LogFormat::Human, LogLevel::Info, None);
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].ends_with(r#"INFO session started stream="live/a""#),
            "{}",
            lines[0]
        );
    }

    #[test]
    fn machines_get_one_object_per_line() {
        let lines = logged(LogFormat::Json, LogLevel::Debug, None);
        assert_eq!(lines.len(), 2);
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "session started");
        assert_eq!(line["stream"], "live/a");
        assert!(line["timestamp"].is_string());
    }

    #[test]
    fn the_level_holds_for_every_crate_of_ours() {
        assert_eq!(logged(LogFormat::Human, LogLevel::Warn, None).len(), 0);
        assert_eq!(logged(LogFormat::Human, LogLevel::Debug, None).len(), 2);
    }

    #[test]
    fn the_variable_overrides_the_level() {
        assert_eq!(logged(LogFormat::Human, LogLevel::Error, Some("debug")).len(), 3);
        assert_eq!(logged(LogFormat::Human, LogLevel::Info, Some("")).len(), 1);
        let error = filter(LogLevel::Info, Some("spillway=loud"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("environment variable RUST_LOG: "), "{error}");
    }
}
