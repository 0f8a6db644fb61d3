//! `spillway sign`: makes a signed link.

use std::io::{self, Write};
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use spillway_access::{Action, Link};
use spillway_config::{Config, Period};
use spillway_hub::{KeyError, StreamKey};
use thiserror::Error;

use super::print;

/// What a link is to say.
#[derive(Debug, Clone, Args)]
pub struct Sign {
    /// What the link allows.
    #[arg(value_enum)]
    action: LinkAction,
    /// The stream, for example live/cam.
    stream: String,
    /// How long the link is valid. A session that has begun may go on longer.
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    expires: Period,
    /// The only address that may use it.
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<IpAddr>,
    /// Print this address with the signature on it, not the signature alone.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LinkAction {
    Play,
    Publish,
}

/// Why there is no link.
#[derive(Debug, Error)]
enum SignError {
    #[error("{0}")]
    Name(#[from] KeyError),
    #[error(
        "no key in auth.link_keys is for {0}: set one, as `openssl rand -hex 32` makes it, on the server and here"
    )]
    NoKey(StreamKey),
    #[error("links are accepted with auth.{0} = \"token\" only, which is not set")]
    NotAccepted(&'static str),
}

impl Sign {
    pub(super) fn run(
        &self,
        config: &Config,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> io::Result<ExitCode> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        match self.link(config, now.map_or(0, |since| since.as_secs())) {
            Ok(link) => print(out, &format!("{link}\n")),
            Err(error) => {
                writeln!(err, "error: {error}")?;
                Ok(ExitCode::FAILURE)
            }
        }
    }

    fn link(&self, config: &Config, now: u64) -> Result<String, SignError> {
        let stream = StreamKey::parse(&self.stream)?;
        let (action, accepted) = match self.action {
            LinkAction::Play => (
                Action::Play,
                config.auth.play == spillway_config::PlayPolicy::Token,
            ),
            LinkAction::Publish => (
                Action::Publish,
                config.auth.publish == spillway_config::PublishPolicy::Token,
            ),
        };
        if !accepted {
            return Err(SignError::NotAccepted(action.label()));
        }
        let keys = &config.auth.link_keys;
        let key = keys.iter().find(|key| key.stream().matches(stream.as_str()));
        let key = key.ok_or_else(|| SignError::NoKey(stream.clone()))?;
        let link = Link {
            action,
            stream: stream.as_str(),
            expires: now.saturating_add(self.expires.get().as_secs()),
            address: self.ip,
        };
        let query = link.sign(key.secret().expose().as_bytes());
        Ok(match &self.url {
            Some(url) if url.contains('?') => format!("{url}&{query}"),
            Some(url) => format!("{url}?{query}"),
            None => query,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use spillway_config::LoadInput;

    use super::super::{Cli, Command};
    use super::*;

    fn sign(arguments: &str, sets: &[&str]) -> Result<String, SignError> {
        let Some(Command::Sign(sign)) = Cli::parse_from(arguments.split_whitespace()).command else {
            panic!("{arguments} is no sign command");
        };
        let input = LoadInput {
            sets: sets.iter().map(|set| (*set).to_owned()).collect(),
            ..LoadInput::default()
        };
        sign.link(&Config::load(&input).unwrap(), 1_767_222_000)
    }

    const KEY: &str = "auth.link_keys=[{stream=\"live/*\", key=\"a-long-random-text\"}]";

    #[test]
    fn a_link_is_signed_for_its_stream_and_put_on_the_address() {
        let sets = ["auth.play=token", KEY];
        let query = "exp=1767225600&sig=99f06f5c3cf7cf7b4f3e9c9c39649be546e6cff02875101602857e9f218563aa";
        assert_eq!(sign("spillway sign play live/cam", &sets).unwrap(), query);
        for (url, joint) in [("http://h/live/cam.flv", '?'), ("http://h/live/cam?via=hls", '&')] {
            let link = sign(&format!("spillway sign play live/cam --url {url}"), &sets).unwrap();
            assert_eq!(link, format!("{url}{joint}{query}"));
        }
        let bound = sign("spillway sign play live/cam --ip 192.0.2.1 --expires 30m", &sets).unwrap();
        assert!(bound.starts_with("exp=1767223800&ip=1&sig="), "{bound}");
    }

    #[test]
    fn a_link_that_nobody_would_accept_is_not_made() {
        let sets = ["auth.play=token", KEY];
        for (arguments, said) in [
            ("spillway sign play tv/cam", "auth.link_keys"),
            ("spillway sign publish live/cam", "auth.publish"),
            ("spillway sign play cam", "application and a stream name"),
        ] {
            let error = sign(arguments, &sets).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
