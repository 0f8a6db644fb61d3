//! The configuration: file, environment and flags of any text.

use std::path::PathBuf;

use spillway_config::{LoadInput, Loaded};

/// Any text: read or refused with a reason, and what was read is written so that it reads as the same.
///
/// Lines that begin with `--set ` are flags, with `SPILLWAY__` the environment, and the others the file.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // A key file is opened and read: not every file can be read to its end.
    if text.contains("/dev") || text.contains("/proc") {
        return;
    }
    let mut input = LoadInput::default();
    let mut file = String::new();
    for line in text.split_inclusive('\n') {
        let words = line.trim_end_matches(['\n', '\r']);
        if let Some(set) = words.strip_prefix("--set ") {
            input.sets.push(set.to_owned());
        } else if words.starts_with("SPILLWAY__") {
            let (name, value) = words.split_once('=').unwrap_or((words, ""));
            input.env.push((name.to_owned(), value.to_owned()));
        } else {
            file.push_str(line);
        }
    }
    input.file = Some(write(&file));
    let loaded = match Loaded::read(&input) {
        Ok(loaded) => loaded,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "an error without a word");
            return;
        }
    };
    let _ = loaded.render();
    // Secrets are not written, so a configuration with some does not come back.
    if !loaded.config.auth.publish_keys.is_empty() {
        return;
    }
    let written = loaded.config.to_toml();
    let again = LoadInput {
        file: Some(write(&written)),
        ..LoadInput::default()
    };
    match Loaded::read(&again) {
        Ok(again) => assert_eq!(loaded.config, again.config, "another configuration by\n{written}"),
        Err(error) => panic!("what was written does not read: {error}\n{written}"),
    }
}

/// A file of this thread's with this text.
fn write(text: &str) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id());
    let thread: String = thread.chars().filter(char::is_ascii_digit).collect();
    let name = format!("spillway-config-{}-{thread}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}
