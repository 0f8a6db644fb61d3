//! The `spillway` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    spillway::cli::main()
}
