//! The command line: what was asked for, and the sub-commands that need no gateway.

mod healthcheck;
mod sign;

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use spillway_config::{ConfigError, ListenAddr, LoadInput, Loaded, OptionalAddr, Period};

use crate::{certificates, limits, telemetry};

pub use healthcheck::{HealthError, Target, healthcheck};
pub use sign::Sign;

/// The environment variable that names the configuration file when `--config` does not.
pub const CONFIG_VARIABLE: &str = "SPILLWAY_CONFIG";

/// The ports that `--tls-self-signed` opens.
const HTTPS_PORT: u16 = 8443;
const RTMPS_PORT: u16 = 1936;

/// A live media gateway: RTMP in; RTMP, HTTP-FLV, WebSocket-FLV and HLS out.
///
/// Without arguments it runs with the defaults: publish to rtmp://HOST/live/NAME, watch at http://HOST:8080/.
#[derive(Debug, Clone, Parser)]
#[command(name = "spillway", version, max_term_width = 100)]
pub struct Cli {
    /// Configuration file (TOML) [env: SPILLWAY_CONFIG]. `spillway check` explains a wrong one.
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,

    /// Set one key, over the file and the environment: `--set hls.window=8`. May be given again.
    #[arg(long = "set", value_name = "KEY=VALUE", global = true)]
    pub sets: Vec<String>,

    /// Publish a demonstration clip to live/demo, in a loop.
    #[arg(long)]
    pub demo: bool,

    /// Serve HTTPS (port 8443) and RTMPS (port 1936) too, with a certificate made for this start that nobody vouches
    /// for: for trying. `https.listen` and `rtmps.listen` choose other ports.
    #[arg(long, global = true)]
    pub tls_self_signed: bool,

    /// What to do in place of running the gateway.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// A sub-command.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Check the configuration and show what it amounts to, secrets left out.
    Check {
        /// The file to check, in place of `--config`.
        file: Option<PathBuf>,
    },
    /// Print the JSON schema of the configuration file.
    Schema,
    /// Make a signed link, good for one stream until it expires, with a key of `auth.link_keys`.
    Sign(Sign),
    /// Ask a running gateway whether it is ready: exit code 0 if so, 1 if not.
    Healthcheck {
        /// Address to ask [default: `/readyz` at the configured `admin.listen`].
        #[arg(long, value_name = "URL")]
        url: Option<String>,
        /// Ask whether it is alive (`/livez`), not whether it is ready.
        #[arg(long, conflicts_with = "url")]
        live: bool,
        /// Longest time to wait for the answer.
        #[arg(long, value_name = "DURATION", default_value = "3s")]
        timeout: Period,
    },
}

/// The whole program: reads the command line, then carries out a sub-command or runs the gateway until it is told to
/// stop.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.run_command()
        .or_else(|| cli.run_gateway().ok())
        .unwrap_or(ExitCode::FAILURE)
}

impl Cli {
    /// The layers of configuration as the process was started: file, environment, `--set`.
    pub fn load_input(&self) -> LoadInput {
        let from_check = match &self.command {
            Some(Command::Check { file }) => file.clone(),
            _ => None,
        };
        let from_variable = || {
            std::env::var_os(CONFIG_VARIABLE)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        };
        let file = from_check.or_else(|| self.config.clone()).or_else(from_variable);
        let mut sets = self.sets.clone();
        if self.tls_self_signed {
            sets.push("tls.self_signed=true".to_owned());
        }
        LoadInput::from_process(file, sets)
    }

    /// Reads the configuration.
    ///
    /// # Errors
    /// [`ConfigError`], whose text is for the operator as it is; see [`report`].
    pub fn load(&self) -> Result<Loaded, ConfigError> {
        let mut loaded = Loaded::read(&self.load_input())?;
        if self.tls_self_signed {
            let config = &mut loaded.config;
            open(&mut config.https.listen, HTTPS_PORT);
            open(&mut config.rtmps.listen, RTMPS_PORT);
        }
        Ok(loaded)
    }

    /// Carries out the sub-command, if there is one. `None` asks the caller to run the gateway.
    pub fn run_command(&self) -> Option<ExitCode> {
        let done = match self.command.as_ref()? {
            Command::Check { .. } => self.check(&mut io::stdout(), &mut io::stderr()),
            Command::Schema => print(&mut io::stdout(), &spillway_config::schema()),
            Command::Sign(sign) => self.sign(sign, &mut io::stdout(), &mut io::stderr()),
            Command::Healthcheck { url, live, timeout } => {
                self.healthcheck(url.as_deref(), *live, *timeout, &mut io::stderr())
            }
        };
        Some(done.unwrap_or(ExitCode::FAILURE))
    }

    /// Runs the gateway. Fails only if not even standard error can be written to.
    fn run_gateway(&self) -> io::Result<ExitCode> {
        let mut config = match self.load() {
            Ok(loaded) => loaded.config,
            Err(error) => {
                report(&error, &mut io::stderr())?;
                return Ok(ExitCode::FAILURE);
            }
        };
        let lines = match telemetry::init(&config.log) {
            Ok(lines) => lines,
            Err(error) => {
                writeln!(io::stderr(), "error: {error}")?;
                return Ok(ExitCode::FAILURE);
            }
        };
        let files = limits::raise_nofile();
        for warning in config
            .warnings()
            .into_iter()
            .chain(files.warning(config.limits.max_connections))
        {
            tracing::warn!("{warning}");
        }
        config.limits.max_connections = files.room_for(config.limits.max_connections);
        let code = match crate::run(&config, self.demo) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!("{error}");
                ExitCode::FAILURE
            }
        };
        lines.flush();
        Ok(code)
    }

    fn check(&self, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<ExitCode> {
        let loaded = match self.load() {
            Ok(loaded) => loaded,
            Err(error) => {
                report(&error, err)?;
                return Ok(ExitCode::FAILURE);
            }
        };
        for warning in loaded.config.warnings() {
            writeln!(err, "warning: {warning}")?;
        }
        match certificates::load(&loaded.config) {
            Ok(certificates) => {
                if let Some(warning) = certificates.and_then(|loaded| certificates::warning(&loaded)) {
                    writeln!(err, "warning: {warning}")?;
                }
            }
            Err(error) => {
                writeln!(err, "error: {error}")?;
                return Ok(ExitCode::FAILURE);
            }
        }
        writeln!(
            err,
            "The configuration is valid. In effect, marked where set and by what:"
        )?;
        print(out, &loaded.render())
    }

    fn sign(&self, sign: &Sign, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<ExitCode> {
        match self.load() {
            Ok(loaded) => sign.run(&loaded.config, out, err),
            Err(error) => {
                report(&error, err)?;
                Ok(ExitCode::FAILURE)
            }
        }
    }

    fn healthcheck(
        &self,
        url: Option<&str>,
        live: bool,
        timeout: Period,
        err: &mut dyn Write,
    ) -> io::Result<ExitCode> {
        let target = match url {
            Some(url) => url.parse::<Target>(),
            None => match self.load() {
                Ok(loaded) => {
                    let path = if live { "/livez" } else { "/readyz" };
                    Target::of_listener(loaded.config.admin.listen.get(), path)
                }
                Err(error) => {
                    report(&error, err)?;
                    return Ok(ExitCode::FAILURE);
                }
            },
        };
        match target.and_then(|target| healthcheck(&target, timeout.get())) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => {
                writeln!(err, "unhealthy: {error}")?;
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// Opens a listener on every interface, unless it is set.
fn open(listener: &mut OptionalAddr, port: u16) {
    if listener.get().is_none() {
        *listener = OptionalAddr::on(ListenAddr::new((Ipv4Addr::UNSPECIFIED, port).into()));
    }
}

/// Writes a configuration error for the operator, a line for each thing that is wrong.
///
/// # Errors
/// Whatever `err` answers.
pub fn report(error: &ConfigError, err: &mut dyn Write) -> io::Result<()> {
    for line in error.to_string().lines() {
        writeln!(err, "error: {line}")?;
    }
    Ok(())
}

fn print(out: &mut dyn Write, text: &str) -> io::Result<ExitCode> {
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn cli(arguments: &str) -> Cli {
        Cli::parse_from(std::iter::once("spillway").chain(arguments.split_whitespace()))
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_arguments_the_gateway_runs() {
        let cli = cli("");
        assert!(cli.run_command().is_none());
        assert!(!cli.demo);
        assert_eq!(cli.config, None);
    }

    #[test]
    fn flags_stand_before_or_after_the_sub_command() {
        for arguments in [
            "--config a.toml --set hls.window=8 check",
            "check --config a.toml --set hls.window=8",
        ] {
            let input = cli(arguments).load_input();
            assert_eq!(input.file, Some("a.toml".into()));
            assert_eq!(input.sets, ["hls.window=8"]);
        }
    }

    #[test]
    fn the_file_of_check_goes_before_that_of_config() {
        assert_eq!(
            cli("--config a.toml check b.toml").load_input().file,
            Some("b.toml".into())
        );
    }

    #[test]
    fn check_shows_what_is_in_effect() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = cli("check --set hls.window=8 --set auth.publish_keys=s3cret")
            .check(&mut out, &mut err)
            .unwrap();
        assert_eq!(code, ExitCode::SUCCESS);
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("window = 8  # --set hls.window"), "{out}");
        assert!(!out.contains("s3cret"), "{out}");
    }

    #[test]
    fn check_says_what_is_wrong_and_fails() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = cli("check --set hls.windw=8 --set play.wait=1")
            .check(&mut out, &mut err)
            .unwrap();
        assert_eq!(code, ExitCode::FAILURE);
        assert!(out.is_empty());
        let err = String::from_utf8(err).unwrap();
        assert_eq!(
            err.lines()
                .filter(|line| line.starts_with("error: --set "))
                .count(),
            2,
            "{err}"
        );
    }

    #[test]
    fn a_gateway_that_is_not_there_is_unhealthy() {
        let mut err = Vec::new();
        let cli = cli("healthcheck --set admin.listen=127.0.0.1:1");
        let code = cli
            .healthcheck(None, false, Period::from_secs(1), &mut err)
            .unwrap();
        assert_eq!(code, ExitCode::FAILURE);
        let err = String::from_utf8(err).unwrap();
        assert!(
            err.starts_with("unhealthy: cannot connect to 127.0.0.1:1"),
            "{err}"
        );
    }
}
