//! `spillway-load`: publishers and players for any live server, and what they measure.

use clap::Parser;
use spillway_bench::error::LoadError;
use spillway_bench::options::Options;
use spillway_bench::{compare, run};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match made(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spillway-load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn made(options: &Options) -> Result<(), LoadError> {
    let text = if options.compare.is_empty() {
        let report = run::run(options)?;
        if let Some(path) = &options.json {
            let json = serde_json::to_string_pretty(&report)
                .map_err(|error| LoadError::Options(format!("results cannot be written: {error}")))?;
            std::fs::write(path, json).map_err(LoadError::io(path.display().to_string()))?;
        }
        report.to_string()
    } else {
        compare::table(&options.compare)?
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(LoadError::io("standard output"))
}
