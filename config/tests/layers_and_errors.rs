//! Which layer wins, and what an operator is told about a wrong one.

use std::path::PathBuf;

use spillway_config::{
    Config, ConfigError, Flush, HlsMode, HookEvent, LoadInput, Loaded, Period, PublishPolicy, Source,
};

/// A folder with `spillway.toml` of the given text.
struct File {
    folder: tempfile::TempDir,
}

impl File {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("spillway.toml"), text).expect("a file");
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("spillway.toml")
    }

    fn load(&self) -> Result<Config, ConfigError> {
        Config::load(&LoadInput {
            file: Some(self.path()),
            ..LoadInput::default()
        })
    }

    /// The error lines, the folder's name taken out.
    fn errors(&self) -> Vec<String> {
        let folder = format!("{}/", self.folder.path().display());
        let error = self.load().expect_err("a wrong file").to_string();
        error.lines().map(|line| line.replace(&folder, "")).collect()
    }
}

fn file_errors(text: &str) -> Vec<String> {
    File::new(text).errors()
}

fn with_env(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let env = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Config::load(&LoadInput {
        env,
        ..LoadInput::default()
    })
}

fn with_sets(sets: &[&str]) -> Result<Config, ConfigError> {
    let sets = sets.iter().map(|set| (*set).to_owned()).collect();
    Config::load(&LoadInput {
        sets,
        ..LoadInput::default()
    })
}

#[test]
fn nothing_at_all_gives_the_defaults() {
    assert_eq!(Config::load(&LoadInput::default()).unwrap(), Config::default());
    assert_eq!(File::new("").load().unwrap(), Config::default());
}

#[test]
fn each_layer_overrides_the_one_before() {
    let file =
        File::new("[hls]\nwindow = 7\nsegment_duration = '3s'\nmode = 'always'\n[publish]\nlinger = '1s'\n");
    let loaded = Loaded::read(&LoadInput {
        file: Some(file.path()),
        env: vec![
            ("SPILLWAY__HLS__WINDOW".into(), "8".into()),
            ("SPILLWAY__HLS__SEGMENT_DURATION".into(), "4s".into()),
            ("PATH".into(), "/bin".into()),
            ("SPILLWAY_SERVICE_HOST".into(), "10.0.0.1".into()),
        ],
        sets: vec!["hls.window=9".into(), "hls.window=10".into()],
    })
    .unwrap();
    assert_eq!(loaded.config.hls.window, 10);
    assert_eq!(loaded.config.hls.segment_duration, Period::from_secs(4));
    assert_eq!(loaded.config.hls.mode, HlsMode::Always);
    assert_eq!(loaded.config.publish.linger, Period::from_secs(1));
    assert_eq!(loaded.config.play, Config::default().play);
    assert_eq!(
        loaded.origin("hls.window"),
        &Source::Flag {
            key: "hls.window".into()
        }
    );
    assert_eq!(loaded.origin("play.wait"), &Source::Default);
}

#[test]
fn keys_may_be_written_in_any_form_that_toml_knows() {
    for text in [
        "hls.window = 8",
        "hls = { window = 8 }",
        "[hls]\nwindow = 8",
        "\u{feff}[hls]\r\nwindow = 8\r\n",
    ] {
        assert_eq!(File::new(text).load().unwrap().hls.window, 8, "{text:?}");
    }
}

#[test]
fn an_unknown_key_stops_the_start_with_its_place_and_a_guess() {
    let errors = file_errors("[rtmp]\nlisten = '127.0.0.1:1935'\n\n[hls]\n  windw = 8\n");
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with("spillway.toml:5:3: hls.windw: unknown key, did you mean `hls.window`?"),
        "{}",
        errors[0]
    );
    assert!(errors[0].contains("segment_duration"), "{}", errors[0]);
}

#[test]
fn an_unknown_section_stops_the_start() {
    let errors = file_errors("[hsl]\nwindow = 8\n");
    assert!(
        errors[0].starts_with("spillway.toml:1:2: hsl: unknown key, did you mean `hls`?"),
        "{}",
        errors[0]
    );
    let errors = file_errors("window = 8\n");
    assert!(errors[0].contains("did you mean `hls.window`"), "{}", errors[0]);
}

#[test]
fn everything_wrong_is_told_at_once() {
    let errors =
        file_errors("[hls]\nwindow = 'six'\nsegment_duration = 2\ncheese = 1\n[log]\nlevel = 'loud'\n");
    assert_eq!(errors.len(), 4, "{errors:#?}");
}

#[test]
fn a_duration_without_a_unit_is_refused() {
    let errors = file_errors("[publish]\nlinger = 15\n");
    assert_eq!(
        errors,
        ["spillway.toml:2:1: publish.linger: the number 15 has no unit: write it as \"15s\""]
    );
    let errors = file_errors("[ring]\nmax_bytes = 1000000\n");
    assert!(
        errors[0].contains("ring.max_bytes: the number 1000000 has no unit"),
        "{errors:?}"
    );
    let errors = file_errors("play.flush = 0");
    assert!(errors[0].contains("\"0ms\", or \"auto\""), "{errors:?}");
}

#[test]
fn a_wrong_type_says_what_was_expected() {
    let expectations = [
        ("hls.window = '6'", "expected a whole number"),
        ("hls.window = -1", "expected a whole number"),
        ("hls.window = { a = 1 }", "expected a whole number"),
        (
            "hls.mode = 'sometimes'",
            "expected one of `on-demand`, `always`, `off`",
        ),
        ("log.format = 'xml'", "expected `human` or `json`"),
        ("http.list_streams = 'yes'", "expected true or false"),
        ("rtmp.listen = '1935'", "\"0.0.0.0:1935\""),
        ("hls.segment_duration = true", "expected a duration with its unit"),
        (
            "ring.max_bytes = '16M'",
            "use one of B, kB, KiB, MB, MiB, GB, GiB",
        ),
        ("hls = 5", "a section, not a key"),
        ("hls.window = 2", "2 is out of range: expected 3 to 100"),
        ("hls.segment_duration = '500ms'", "expected 1s to 30s"),
    ];
    for (text, expected) in expectations {
        let errors = file_errors(text);
        assert!(errors[0].contains(expected), "{text}: {errors:?}");
        assert!(errors[0].starts_with("spillway.toml:1:"), "{text}: {errors:?}");
    }
}

#[test]
fn broken_toml_is_told_with_its_place() {
    let errors = file_errors("[hls]\nwindow = \n");
    assert!(errors[0].starts_with("spillway.toml:2:"), "{errors:?}");
    assert!(errors[0].contains("not valid TOML"), "{errors:?}");
    let errors = file_errors("[hls]\nwindow = 6\nwindow = 7\n");
    assert!(errors[0].starts_with("spillway.toml:3:"), "{errors:?}");
}

#[test]
fn a_rule_between_keys_points_at_the_key_that_was_set() {
    let errors = file_errors("[hls]\n\nsegment_duration = '20s'\n");
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with("spillway.toml:3:1: hls.max_segment_duration: 12s is shorter than"),
        "{errors:?}"
    );

    let file = File::new("[hls]\nmax_segment_duration = '15s'\n");
    let error = Config::load(&LoadInput {
        file: Some(file.path()),
        sets: vec!["hls.segment_duration=20s".into()],
        ..LoadInput::default()
    });
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("--set hls.segment_duration: ")
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load(&LoadInput {
        file: Some("/nowhere/spillway.toml".into()),
        ..LoadInput::default()
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("/nowhere/spillway.toml: cannot read the configuration file"),
        "{error}"
    );
}

#[test]
fn errors_of_the_environment_name_the_variable() {
    let error = with_env(&[("SPILLWAY__HLS__WINDOW", "six")])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("environment variable SPILLWAY__HLS__WINDOW: hls.window: "),
        "{error}"
    );
    let error = with_env(&[("SPILLWAY__HLS__WINDW", "6")])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("SPILLWAY__HLS__WINDW") && error.contains("did you mean `hls.window`"),
        "{error}"
    );
    let error = with_env(&[("SPILLWAY__HLS", "6")]).unwrap_err().to_string();
    assert!(error.contains("a section, not a key"), "{error}");
    let error = with_env(&[("SPILLWAY__ADMIN__LISTEN", "8081")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"0.0.0.0:1935\""), "{error}");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let config = with_env(&[
        ("SPILLWAY__AUTH__PUBLISH_KEYS", ""),
        ("SPILLWAY__HLS__WINDOW", ""),
    ])
    .unwrap();
    assert_eq!(config, Config::default());
}

#[test]
fn errors_of_flags_name_the_flag() {
    let error = with_sets(&["play.max_lag=3"]).unwrap_err().to_string();
    assert!(
        error.starts_with("--set play.max_lag: \"3\" has no unit"),
        "{error}"
    );
    let error = with_sets(&["hls.window"]).unwrap_err().to_string();
    assert!(
        error.starts_with("--set hls.window: has no value: expected KEY=VALUE"),
        "{error}"
    );
}

#[test]
fn values_on_the_command_line_need_no_quotes_but_may_have_them() {
    let config = with_sets(&[
        "play.flush=0ms",
        "log.level=\"debug\"",
        "http.list_streams=false",
        "rtmp.listen=127.0.0.1:0",
        "auth.publish=open",
    ])
    .unwrap();
    assert_eq!(config.play.flush, Flush::Every(Period::default()));
    assert_eq!(config.log.level.as_str(), "debug");
    assert!(!config.http.list_streams);
    assert_eq!(config.rtmp.listen.get().port(), 0);
    assert_eq!(config.auth.publish, PublishPolicy::Open);
}

fn publishes(auth: &spillway_config::Auth, name: &str, offered: &[u8]) -> bool {
    auth.publish_keys.iter().any(|key| key.opens(name, offered))
}

#[test]
fn publish_keys_are_texts_or_tables() {
    let file = File::new(
        "[auth]\npublish_keys = ['everywhere', { stream = 'live/*', key = 'live-only' }, { key_file = 'stage.key' }]\n",
    );
    std::fs::write(file.folder.path().join("stage.key"), "from-a-file\n").unwrap();
    let auth = file.load().unwrap().auth;
    assert!(publishes(&auth, "any/stream", b"everywhere"));
    assert!(publishes(&auth, "live/a", b"live-only"));
    assert!(!publishes(&auth, "any/stream", b"live-only"));
    assert!(publishes(&auth, "any/stream", b"from-a-file"));
    assert!(!publishes(&auth, "any/stream", b""));
    assert!(!publishes(&auth, "any/stream", b"from-a-file\n"));
}

#[test]
fn the_hooks_secret_comes_from_a_file_or_the_environment_and_is_never_shown() {
    let file =
        File::new("[hooks]\nurl = 'http://127.0.0.1:9/'\nsecret_file = 'hook.secret'\nca_file = 'ca.pem'\n");
    let path = file.folder.path();
    let error = file.load().unwrap_err().to_string();
    assert!(
        error.contains("hooks.secret_file: cannot take a secret from"),
        "{error}"
    );
    std::fs::write(path.join("hook.secret"), "s3cret\n").unwrap();
    let error = file.load().unwrap_err().to_string();
    assert!(
        error.contains("at least 16 characters") && !error.contains("s3cret"),
        "{error}"
    );
    std::fs::write(path.join("hook.secret"), "0123456789-s3cret\n").unwrap();
    let config = file.load().unwrap();
    assert_eq!(config.hooks.secret.expose(), "0123456789-s3cret");
    assert_eq!(config.hooks.ca_file, path.join("ca.pem").to_str().unwrap());
    let env = [
        ("SPILLWAY__HOOKS__SECRET", "0123456789-s3cret"),
        ("SPILLWAY__HOOKS__EVENTS", "publish"),
    ];
    let config = with_env(&env).unwrap();
    assert_eq!(config.hooks.events, [HookEvent::Publish]);
    assert!(!config.to_toml().contains("s3cret") && config.to_toml().contains("secret = \"<redacted>\""));
    assert!(Config::default().to_toml().contains("secret = \"\""));
}

#[test]
fn publish_keys_come_from_the_environment_alone_or_as_a_list() {
    let keys = |text| with_env(&[("SPILLWAY__AUTH__PUBLISH_KEYS", text)]).unwrap().auth;
    assert!(publishes(&keys("one-key"), "a/b", b"one-key"));
    assert!(publishes(&keys("12345678"), "a/b", b"12345678"));
    assert!(publishes(&keys("['one', \"two\"]"), "a/b", b"two"));
    assert!(publishes(&keys("{ stream = 'a/*', key = 'x' }"), "a/b", b"x"));
    let error = with_env(&[("SPILLWAY__AUTH__PUBLISH_KEYS", "['s3cret', oops]")])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("not a list") && !error.contains("s3cret"),
        "{error}"
    );
}

#[test]
fn a_wrong_key_is_told_by_its_place_and_never_shown() {
    let text = "[auth]\npublish_keys = [\n  'top-s3cret',\n  { stream = 'live/*', key = 's3cret', kye = 's3cret' },\n  31337,\n  '',\n]\n";
    let file = File::new(text);
    let errors = file.errors();
    assert_eq!(errors.len(), 3, "{errors:#?}");
    assert!(
        errors[0].starts_with("spillway.toml:4:3: auth.publish_keys: unknown field `kye`"),
        "{errors:#?}"
    );
    assert!(
        errors[1].starts_with("spillway.toml:5:3: auth.publish_keys: a key must be in quotes"),
        "{errors:#?}"
    );
    assert!(
        errors[2].starts_with("spillway.toml:6:3: auth.publish_keys: a key must not be empty"),
        "{errors:#?}"
    );
    let all = format!("{}{:?}", errors.join("\n"), file.load().unwrap_err());
    assert!(!all.contains("s3cret") && !all.contains("31337"), "{all}");
}

#[test]
fn tables_of_keys_have_places_too() {
    let errors =
        file_errors("[[auth.publish_keys]]\nkey = 'a'\n\n[[auth.publish_keys]]\nstream = 'live/*'\n");
    assert_eq!(
        errors,
        ["spillway.toml:4:1: auth.publish_keys: a key's table needs `key`, or `key_file`"]
    );
}

#[test]
fn a_key_file_that_cannot_be_used_stops_the_start() {
    let file = File::new("[auth]\npublish_keys = [{ key_file = 'missing.key' }]\n");
    let errors = file.errors();
    assert!(
        errors[0].starts_with("spillway.toml:2:17: auth.publish_keys: cannot take a key from key_file"),
        "{errors:?}"
    );
    std::fs::write(file.folder.path().join("missing.key"), "\n").unwrap();
    assert!(file.errors()[0].ends_with("a key must not be empty"));
}

#[test]
fn the_effective_configuration_is_shown_without_secrets() {
    let file =
        File::new("[auth]\npublish_keys = ['s3cret-one', { stream = 'live/*', key = 's3cret-two' }]\n");
    let loaded = Loaded::read(&LoadInput {
        file: Some(file.path()),
        sets: vec!["hls.window=8".into()],
        ..LoadInput::default()
    })
    .unwrap();
    let shown = loaded.render();
    assert!(shown.contains("window = 8  # --set hls.window\n"), "{shown}");
    assert!(
        shown.contains("[[auth.publish_keys]]  # ") && shown.contains("stream = \"live/*\""),
        "{shown}"
    );
    assert!(shown.contains("key = \"<redacted>\""), "{shown}");
    assert!(
        !shown.contains("s3cret") && !format!("{loaded:?}").contains("s3cret"),
        "{shown}"
    );
    assert!(toml::from_str::<toml::Table>(&shown).is_ok());
}

#[test]
fn what_is_shown_is_a_valid_file() {
    let shown = Config::default().to_toml();
    assert_eq!(File::new(&shown).load().unwrap(), Config::default());
}
