//! The files beside the code say what the code does: `spillway.toml`, `spillway.schema.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use spillway_config::{Config, Keys, LoadInput, Loaded, RANGES, Source};

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn annotated_file() -> LoadInput {
    LoadInput {
        file: Some(beside("spillway.toml")),
        ..LoadInput::default()
    }
}

/// Each key set in `spillway.toml` with the comment lines right above it.
fn keys_with_comments() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(beside("spillway.toml")).expect("the annotated file");
    let (mut keys, mut section, mut comment) = (BTreeMap::new(), String::new(), String::new());
    for line in text.lines() {
        if let Some(words) = line.strip_prefix('#') {
            comment.push_str(words);
            comment.push('\n');
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((name, _)) = line.split_once(" = ") {
            keys.insert(format!("{section}.{name}"), comment.clone());
        }
        comment.clear();
    }
    keys
}

#[test]
fn the_annotated_file_holds_the_defaults() {
    let loaded = Loaded::read(&annotated_file()).unwrap();
    assert_eq!(loaded.config, Config::default());
}

#[test]
fn the_annotated_file_sets_every_key_and_explains_it() {
    let loaded = Loaded::read(&annotated_file()).unwrap();
    let in_file = keys_with_comments();
    for (key, _) in Keys::all().iter() {
        assert!(
            matches!(loaded.origin(key), Source::File { .. }),
            "{key} does not stand in config/spillway.toml"
        );
        let comment = in_file
            .get(key)
            .unwrap_or_else(|| panic!("{key} = … not found in config/spillway.toml"));
        assert!(
            comment.trim().len() > 20,
            "{key} has no comment right above it in config/spillway.toml"
        );
    }
    assert_eq!(in_file.len(), Keys::all().iter().count());
}

#[test]
fn the_annotated_file_names_the_range_of_each_key_that_has_one() {
    let in_file = keys_with_comments();
    for (key, range) in RANGES {
        let comment = in_file
            .get(*key)
            .unwrap_or_else(|| panic!("{key} has a range but is no key"));
        let expected = format!("Range: {range}.");
        assert!(
            comment.contains(&expected),
            "the comment of {key} in config/spillway.toml should say {expected:?}"
        );
    }
    for (key, comment) in in_file {
        let has_range = RANGES.iter().any(|(ranged, _)| *ranged == key);
        assert_eq!(comment.contains("Range:"), has_range, "{key}");
    }
}

#[test]
fn every_key_is_documented_in_the_code() {
    for (key, facts) in Keys::all().iter() {
        assert!(facts.description.len() > 20, "{key} needs a doc comment");
    }
}

#[test]
fn the_committed_schema_is_the_codes() {
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let committed = std::fs::read_to_string(beside("spillway.schema.json")).unwrap();
    assert!(
        json(&committed) == json(&spillway_config::schema()),
        "config/spillway.schema.json is out of date; write it anew: cargo run -- schema > config/spillway.schema.json"
    );
}
