//! Typed configuration: defaults, file, environment and command line, with errors that name the line.
