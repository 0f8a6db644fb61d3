//! Instruction counts of the hot paths, and whether they are still what the baseline says.
//!
//! A count is what Valgrind's cachegrind sees of a work's passes, less what it sees of no pass: start, data and
//! warm-up are not in it. It hardly depends on the machine or on what else runs there, but very much on the
//! compiler and the C library; against a baseline of others it is only reported.

use crate::error::LoadError;
use crate::work::{self, Named};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// How far a count may be from the baseline, in per cent.
pub const TOLERANCE_PERCENT: u64 = 3;
/// Passes that are counted.
const PASSES: u64 = 10;
/// The C library picks its memory functions by what the processor can do. These it has on every x86-64 processor;
/// elsewhere the names mean nothing.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-AVX,-AVX2,-AVX512F,-AVX512VL,-ERMS,-FSRM";

/// What counts depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchain {
    /// What `rustc --version` says.
    pub rustc: String,
    /// The C library with its version.
    pub libc: String,
    /// The processor architecture.
    pub arch: String,
}

impl Toolchain {
    /// The one at hand, which must be the one that built this program.
    ///
    /// # Errors
    /// [`LoadError::Io`] if there is no compiler.
    pub fn here() -> Result<Self, LoadError> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let libc =
            said(Command::new("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_else(|_| "unknown".to_owned());
        Ok(Self {
            rustc: said(Command::new(rustc).arg("--version"))?,
            libc,
            arch: std::env::consts::ARCH.to_owned(),
        })
    }
}

impl Display for Toolchain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.rustc, self.libc, self.arch)
    }
}

fn said(command: &mut Command) -> Result<String, LoadError> {
    let what = format!("start {}", command.get_program().to_string_lossy());
    let output = command.output().map_err(LoadError::io(what))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The cost of one work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Instructions of one pass.
    pub pass: u64,
    /// The same for each item of it, rounded.
    pub item: u64,
    /// What an item is.
    pub of: String,
}

/// Costs by the works' names, and what they were counted with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// What the counts hold for.
    pub toolchain: Toolchain,
    /// Instructions.
    pub works: BTreeMap<String, Cost>,
}

impl Baseline {
    /// Counts all works. `gate` is the program whose `run WORK PASSES` does one.
    ///
    /// # Errors
    /// [`LoadError::Io`] if Valgrind cannot be started, [`LoadError::Options`] if it fails.
    pub fn measure(gate: &Path) -> Result<Self, LoadError> {
        let mut works = BTreeMap::new();
        for named in work::ALL {
            works.insert(named.name.to_owned(), cost(gate, *named)?);
        }
        Ok(Self {
            toolchain: Toolchain::here()?,
            works,
        })
    }

    /// Reads a file that [`Baseline::write`] wrote.
    ///
    /// # Errors
    /// [`LoadError::Io`], or [`LoadError::Options`] for a file that is something else.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let text =
            std::fs::read_to_string(path).map_err(LoadError::io(format!("read {}", path.display())))?;
        serde_json::from_str(&text)
            .map_err(|error| LoadError::Options(format!("{}: {error}", path.display())))
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// [`LoadError::Io`]
    pub fn write(&self, path: &Path) -> Result<(), LoadError> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| LoadError::Options(format!("{}: {error}", path.display())))?;
        std::fs::write(path, text + "\n").map_err(LoadError::io(format!("write {}", path.display())))
    }

    /// What a frame costs in the hub with nobody watching, in instructions.
    pub fn hub_frame(&self) -> Option<u64> {
        let push = self.works.get(work::PUSH)?;
        let buffers = self.works.get(work::BUFFERS)?;
        push.item.checked_sub(buffers.item)
    }
}

/// Counts one work.
fn cost(gate: &Path, named: Named) -> Result<Cost, LoadError> {
    let (all, none) = thread::scope(|scope| {
        let none = scope.spawn(|| instructions(gate, named.name, 0));
        let all = instructions(gate, named.name, PASSES);
        let failed = || LoadError::Options("a thread failed; see above".to_owned());
        (all, none.join().unwrap_or_else(|_| Err(failed())))
    });
    let pass = all?.saturating_sub(none?) / PASSES;
    let items = (named.make)().items().max(1);
    Ok(Cost {
        pass,
        item: (pass + items / 2) / items,
        of: named.item.to_owned(),
    })
}

fn instructions(gate: &Path, name: &str, passes: u64) -> Result<u64, LoadError> {
    let output = Command::new("valgrind")
        .args([
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
        ])
        .arg(gate)
        .args(["run", name, &passes.to_string()])
        .env("GLIBC_TUNABLES", TUNABLES)
        .output()
        .map_err(LoadError::io("start valgrind"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match total(&said).filter(|_| output.status.success()) {
        Some(instructions) => Ok(instructions),
        None => Err(LoadError::Options(format!(
            "valgrind counted nothing for {name}: {}",
            said.trim()
        ))),
    }
}

/// The number in cachegrind's `==7== I   refs:      1,234,567`.
fn total(said: &str) -> Option<u64> {
    let line = said
        .lines()
        .find(|line| line.split_whitespace().nth(1) == Some("I"))?;
    let (_, number) = line.split_once("refs:")?;
    number.trim().replace(',', "").parse().ok()
}

/// One work against the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    name: String,
    measured: Option<Cost>,
    expected: Option<Cost>,
}

impl Line {
    fn passes(&self) -> Option<(u64, u64)> {
        Some((self.expected.as_ref()?.pass, self.measured.as_ref()?.pass))
    }

    fn change_percent(&self) -> Option<f64> {
        let (expected, measured) = self.passes()?;
        Some((measured as f64 / expected.max(1) as f64 - 1.0) * 100.0)
    }

    /// Within the tolerance; what one side does not know is not.
    fn holds(&self) -> bool {
        self.passes().is_some_and(|(expected, measured)| {
            u128::from(measured.abs_diff(expected)) * 100
                <= u128::from(TOLERANCE_PERCENT) * u128::from(expected)
        })
    }
}

impl Display for Line {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let number = |cost: &Option<Cost>| cost.as_ref().map_or("-".to_owned(), |cost| cost.item.to_string());
        let of = self.measured.as_ref().or(self.expected.as_ref());
        write!(
            f,
            "{:18} {:>10} {:>10} instructions per {:10}",
            self.name,
            number(&self.expected),
            number(&self.measured),
            of.map_or("", |cost| cost.of.as_str()),
        )?;
        match self.change_percent() {
            Some(change) => write!(f, "{change:+7.2} %")?,
            None if self.expected.is_none() => f.write_str("not in the baseline")?,
            None => f.write_str("no longer measured")?,
        }
        f.write_str(if self.holds() { "" } else { "  <--" })
    }
}

/// Where the baseline is kept.
pub fn baseline_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.json")
}

/// All works against the baseline.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// One for each work.
    pub lines: Vec<Line>,
    /// The baseline's toolchain, if it is not the one that measured.
    pub other_toolchain: Option<Toolchain>,
}

impl Comparison {
    /// Compares what was measured with what should have been.
    pub fn new(measured: &Baseline, expected: &Baseline) -> Self {
        let mut names: Vec<_> = measured.works.keys().chain(expected.works.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let line = |name: &String| Line {
            name: name.clone(),
            measured: measured.works.get(name).cloned(),
            expected: expected.works.get(name).cloned(),
        };
        Self {
            lines: names.into_iter().map(line).collect(),
            other_toolchain: (measured.toolchain != expected.toolchain).then(|| expected.toolchain.clone()),
        }
    }

    /// Works beyond the tolerance.
    pub fn deviating(&self) -> usize {
        self.lines.iter().filter(|line| !line.holds()).count()
    }

    /// Whether that is a failure: against another toolchain's baseline it is not.
    pub fn failed(&self) -> bool {
        self.other_toolchain.is_none() && self.deviating() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(works: &[(&str, u64)]) -> Baseline {
        let cost = |pass: u64| Cost {
            pass,
            item: pass / 10,
            of: "message".to_owned(),
        };
        Baseline {
            toolchain: Toolchain {
                rustc: "rustc 1".to_owned(),
                libc: "glibc 2".to_owned(),
                arch: "x86_64".to_owned(),
            },
            works: works
                .iter()
                .map(|(name, pass)| ((*name).to_owned(), cost(*pass)))
                .collect(),
        }
    }

    #[test]
    fn three_per_cent_either_way_are_tolerated_and_no_more() {
        let expected = baseline(&[("a", 1_000)]);
        for (measured, fails) in [(970, false), (1_030, false), (969, true), (1_031, true)] {
            let comparison = Comparison::new(&baseline(&[("a", measured)]), &expected);
            assert_eq!(comparison.failed(), fails, "{measured}");
        }
    }

    #[test]
    fn a_work_that_one_side_does_not_know_deviates() {
        let expected = baseline(&[("a", 1_000), ("b", 10)]);
        let comparison = Comparison::new(&baseline(&[("a", 1_000), ("c", 10)]), &expected);
        assert_eq!(comparison.deviating(), 2);
        let text: Vec<_> = comparison.lines.iter().map(ToString::to_string).collect();
        assert!(text[1].contains("no longer measured"), "{}", text[1]);
        assert!(text[2].contains("not in the baseline"), "{}", text[2]);
    }

    #[test]
    fn against_another_toolchain_nothing_fails() {
        let expected = baseline(&[("a", 1_000)]);
        let mut measured = baseline(&[("a", 2_000)]);
        measured.toolchain.rustc = "rustc 2".to_owned();
        let comparison = Comparison::new(&measured, &expected);
        assert_eq!(comparison.deviating(), 1);
        assert!(!comparison.failed() && comparison.other_toolchain == Some(expected.toolchain));
    }

    #[test]
    fn the_count_is_found_in_what_old_and_new_cachegrinds_say() {
        assert_eq!(
            total("==7== Cachegrind\n==7== I   refs:      1,234,567\n"),
            Some(1_234_567)
        );
        assert_eq!(total("==7== I refs:        42\n"), Some(42));
        assert_eq!(total("valgrind: failed to start tool\n"), None);
    }

    #[test]
    fn the_committed_baseline_knows_all_works() {
        let baseline = Baseline::read(&baseline_path()).unwrap();
        let names: Vec<_> = baseline.works.keys().map(String::as_str).collect();
        let mut all: Vec<_> = work::ALL.iter().map(|work| work.name).collect();
        all.sort_unstable();
        assert_eq!(names, all);
    }
}
