//! Results side by side, as multiples of the first.

use crate::error::LoadError;
use crate::report::Report;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

/// A table of the results in `files`; the first is the measure of the others.
///
/// # Errors
/// [`LoadError::Io`] for files that cannot be read, [`LoadError::Options`] for those that are no results.
pub fn table(files: &[PathBuf]) -> Result<String, LoadError> {
    let mut reports = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).map_err(LoadError::io(file.display().to_string()))?;
        let report: Report = serde_json::from_str(&text)
            .map_err(|error| LoadError::Options(format!("{} holds no results: {error}", file.display())))?;
        reports.push(report);
    }
    Ok(render(&reports))
}

fn render(reports: &[Report]) -> String {
    let first = reports.first().and_then(cost);
    let mut text = format!(
        "{:<24} {:>10} {:>7} {:>6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8}\n",
        "run",
        "CPU s/Gbit",
        "ratio",
        "core",
        "delivered",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "jit. p99",
        "KiB/pl."
    );
    for report in reports {
        let cell = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let server = report.server.as_ref();
        let players = report.players.values().next();
        let delay = players.and_then(|players| players.delay_ms.as_ref());
        let jitter = players.and_then(|players| players.jitter_added_ms.as_ref());
        let ratio = cost(report).zip(first).map(|(cost, first)| cost / first);
        let percent =
            |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.1}%", share * 100.0));
        let memory = server.and_then(|server| server.anon_bytes_per_player);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<24} {:>10} {:>7} {:>6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8}{}",
            report.label,
            cell(cost(report), 4),
            cell(ratio, 2),
            percent(server.map(|server| server.core_share)),
            percent(players.and_then(|players| players.delivered_share)),
            cell(delay.map(|delay| delay.p50), 2),
            cell(delay.map(|delay| delay.p99), 2),
            cell(delay.map(|delay| delay.p999), 2),
            cell(jitter.map(|jitter| jitter.p99), 2),
            cell(memory.map(|bytes| bytes / 1024.0), 1),
            remarks(report),
        );
    }
    text
}

fn cost(report: &Report) -> Option<f64> {
    report.server.as_ref().map(|server| server.cpu_s_per_gigabit)
}

/// What makes a run less than it seems.
fn remarks(report: &Report) -> String {
    let mut remarks = String::new();
    for (protocol, players) in &report.players {
        let not_playing = players.players - players.played;
        let bad = [
            (not_playing, "never played"),
            (players.silent, "silent"),
            (players.losses.values().sum(), "lost"),
            (players.missing, "frames missing"),
            (players.altered, "altered"),
            (players.dts_back, "DTS back"),
        ];
        for (count, what) in bad.into_iter().filter(|(count, _)| *count > 0) {
            let _ = write!(remarks, "  {protocol}: {count} {what}");
        }
    }
    if report.load_core_share > 0.85 {
        let _ = write!(remarks, "  load tool at {:.0} %", report.load_core_share * 100.0);
    }
    remarks
}
