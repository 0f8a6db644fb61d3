//! `gate`: whether the hot paths still take the instructions that `benches/baseline.json` says.
//!
//! `benches/run/gate.sh` builds and starts it.

use clap::{Parser, Subcommand};
use spillway_bench::error::LoadError;
use spillway_bench::gate::{Baseline, Comparison, baseline_path};
use spillway_bench::work;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Counts the instructions of the hot paths.
#[derive(Debug, Parser)]
#[command(name = "gate", version)]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Count all works under Valgrind and compare them with the baseline.
    Check {
        /// The baseline; default: the committed one.
        #[arg(long, value_name = "FILE")]
        baseline: Option<PathBuf>,
        /// Write the baseline instead.
        #[arg(long)]
        update: bool,
    },
    /// Do one work: what is counted.
    Run {
        /// Its name.
        work: String,
        /// How often, each for two seconds of a stream.
        passes: u64,
    },
    /// Name the works.
    List,
}

fn main() -> ExitCode {
    match run(Options::parse().what) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: What) -> Result<bool, LoadError> {
    match what {
        What::Check { baseline, update } => check(&baseline.unwrap_or_else(baseline_path), update),
        What::Run { work, passes } => {
            let named = work::named(&work)
                .ok_or_else(|| LoadError::Options(format!("there is no work {work:?} (see gate list)")))?;
            let mut work = (named.make)();
            for _ in 0..passes {
                work.pass();
            }
            Ok(true)
        }
        What::List => {
            for work in work::ALL {
                say(work.name)?;
            }
            Ok(true)
        }
    }
}

fn check(path: &Path, update: bool) -> Result<bool, LoadError> {
    let own = std::env::current_exe().map_err(LoadError::io("find this program"))?;
    let measured = Baseline::measure(&own)?;
    let expected = match Baseline::read(path) {
        Ok(expected) => expected,
        Err(error) if update => {
            say(&format!("no baseline to compare with: {error}"))?;
            measured.clone()
        }
        Err(error) => return Err(error),
    };
    let comparison = Comparison::new(&measured, &expected);
    say("work                 baseline        now")?;
    for line in &comparison.lines {
        say(&line.to_string())?;
    }
    if let Some(frame) = measured.hub_frame() {
        say(&format!(
            "a frame in the hub with nobody watching: {frame} instructions"
        ))?;
    }
    if update {
        measured.write(path)?;
        say(&format!("written to {}", path.display()))?;
        return Ok(true);
    }
    verdict(&comparison, &measured)?;
    Ok(!comparison.failed())
}

fn verdict(comparison: &Comparison, measured: &Baseline) -> Result<(), LoadError> {
    let (all, deviating) = (comparison.lines.len(), comparison.deviating());
    if let Some(other) = &comparison.other_toolchain {
        return say(&format!(
            "the baseline is of another toolchain, so nothing is failed for it; benches/run/gate.sh --update \
             takes a new one\n  baseline: {other}\n  now:      {}\n{deviating} of {all} counts differ by more \
             than 3 %",
            measured.toolchain
        ));
    }
    if deviating > 0 {
        say(
            "a count is more than 3 % from the baseline: if that is meant, run benches/run/gate.sh --update and \
             commit benches/baseline.json with the reason",
        )?;
    }
    say(&format!("{} passed, {deviating} failed", all - deviating))
}

fn say(line: &str) -> Result<(), LoadError> {
    writeln!(std::io::stdout(), "{line}").map_err(LoadError::io("standard output"))
}
