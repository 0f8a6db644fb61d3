//! One run: server, publishers, players, window, report.

use crate::clock::{MILLISECOND_NS, SECOND_NS, nanoseconds, now_ns, sleep};
use crate::error::LoadError;
use crate::host;
use crate::meter::{Meter, Shared};
use crate::options::Options;
use crate::player::{Engine, Plan, Protocol};
use crate::publisher::{PublisherMeter, Publishers};
use crate::report::{PlayerReport, PublisherReport, Report, ServerReport, ServerSamples};
use crate::server::{Sample, Server};
use crate::trace;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often waiting looks whether it is over.
const PAUSE: Duration = Duration::from_millis(10);
/// Time for a server to come to rest before its memory is taken as the base.
const SETTLE: Duration = Duration::from_millis(500);
/// Time for frames sent in the window to arrive.
const DRAIN: Duration = Duration::from_secs(1);
/// Descriptors needed besides one for each connection.
const SPARE_FILES: u64 = 64;

type Players = JoinHandle<Result<BTreeMap<Protocol, Meter>, LoadError>>;

/// Makes the run that `options` describe.
///
/// # Errors
/// Whatever keeps the run from being made; what happens to single players is in the report.
pub fn run(options: &Options) -> Result<Report, LoadError> {
    check_open_files(options)?;
    let server = start_server(options)?;
    if let Some(cpu) = options.load_cpu {
        host::pin_to(cpu)?;
    }
    let sample = || server.as_ref().map(|server| server.sample(options.server_cpu));
    let shared = Arc::new(Shared::default());

    let idle = sample();
    let publishers = match options.play_only {
        true => None,
        false => Some(start_publishers(options, &shared)?),
    };
    let published = settled(&sample);
    let players = match options.publish_only {
        true => Vec::new(),
        false => start_players(options, &shared)?,
    };
    wait_for_players(options, &shared);
    pause(options, &shared, "warm-up", options.warmup);

    let (start, own_start) = (sample(), Sample::of_self());
    let start_ns = now_ns();
    shared.open_window(start_ns, start_ns + nanoseconds(options.duration));
    pause(options, &shared, "measuring", options.duration);
    let (end, own_end) = (sample(), Sample::of_self());
    sleep(DRAIN);
    let calls = count_calls(options, server.as_ref(), &shared)?;
    shared.stop();

    let meters = join_players(players)?;
    let published_meter = publishers.map(joined).transpose()?.unwrap_or_default();
    let mut report = report(options, &shared, meters, published_meter);
    report.load_core_share = own_end.core_share_since(&own_start);
    if let (Some(server), Some(idle), Some(published), Some(start), Some(end)) =
        (&server, idle, published, start, end)
    {
        let samples = ServerSamples {
            idle,
            published,
            start,
            end,
        };
        let publishing = if options.play_only {
            0
        } else {
            report.publishers.publishing
        };
        let counts = (publishing, options.players());
        let mut costs = ServerReport::new(&samples, report.bytes(options), counts, server.listening_after_ms);
        costs.calls = calls;
        report.server = Some(costs);
    }
    Ok(report)
}

fn check_open_files(options: &Options) -> Result<(), LoadError> {
    let files = host::raise_open_files();
    let needed = options.players() + u64::from(options.publishers) + SPARE_FILES;
    if files < needed {
        let advice = "split the run into processes with --publish-only and --play-only";
        return Err(LoadError::Options(format!(
            "{needed} open files needed, {files} allowed; {advice}"
        )));
    }
    Ok(())
}

/// System calls for each delivered frame, by name.
fn count_calls(
    options: &Options,
    server: Option<&Server>,
    shared: &Shared,
) -> Result<Option<BTreeMap<String, f64>>, LoadError> {
    let (Some(time), Some(server)) = (options.trace, server) else {
        return Ok(None);
    };
    let before = shared.frames.load(Ordering::Relaxed);
    let calls = trace::system_calls(server.pid(), time)?;
    let frames = shared.frames.load(Ordering::Relaxed) - before;
    let each = |(name, count): (String, u64)| (name, count as f64 / frames.max(1) as f64);
    Ok(Some(calls.into_iter().map(each).collect()))
}

fn start_server(options: &Options) -> Result<Option<Server>, LoadError> {
    match (&options.server_cmd, options.server_pid) {
        (Some(command), _) => {
            let address = options.ready_target()?.address;
            let server = Server::start(command, options.server_cpu, &options.server_log, address)?;
            Ok(Some(server))
        }
        (None, Some(pid)) => Ok(Some(Server::running(pid))),
        (None, None) => Ok(None),
    }
}

fn settled(sample: &impl Fn() -> Option<Sample>) -> Option<Sample> {
    sleep(SETTLE);
    sample()
}

fn start_publishers(
    options: &Options,
    shared: &Arc<Shared>,
) -> Result<JoinHandle<Result<PublisherMeter, LoadError>>, LoadError> {
    let (targets, material) = (options.publish_targets()?, options.material()?);
    let total = targets.len() as u64;
    let thread_shared = Arc::clone(shared);
    let thread = thread::Builder::new()
        .name("publishers".to_owned())
        .spawn(move || {
            host::sharpen_timers();
            Publishers::connect(&targets, material, thread_shared)?.run()
        })
        .map_err(LoadError::io("start a thread"))?;
    let all =
        || shared.publishing.load(Ordering::Relaxed) + shared.unpublished.load(Ordering::Relaxed) >= total;
    wait(options.connect_limit, || all() || thread.is_finished());
    Ok(thread)
}

fn start_players(options: &Options, shared: &Arc<Shared>) -> Result<Vec<Players>, LoadError> {
    let mut threads = Vec::new();
    let mut first_number = 0;
    for number in 0..options.threads.max(1) {
        let groups = options.groups(number)?;
        let players: u64 = groups.iter().map(|group| group.players).sum();
        let plan = Plan {
            groups,
            stagger_ns: nanoseconds(options.stagger) * options.threads.max(1),
            hls_spread_ns: nanoseconds(options.hls_spread),
            first_number,
        };
        first_number += players;
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new()
            .name(format!("players-{number}"))
            .spawn(move || Engine::new(&plan, shared)?.run())
            .map_err(LoadError::io("start a thread"))?;
        threads.push(thread);
    }
    Ok(threads)
}

/// Waits until all players play or have failed.
fn wait_for_players(options: &Options, shared: &Shared) {
    if options.publish_only {
        return;
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut said_ns = now_ns();
    wait(options.connect_limit, || {
        if now_ns() - said_ns >= SECOND_NS {
            said_ns = now_ns();
            progress(options, shared, "connecting");
        }
        count(&shared.playing) + count(&shared.lost) >= options.players()
    });
}

fn wait(limit: Duration, mut done: impl FnMut() -> bool) {
    let limit_ns = now_ns() + nanoseconds(limit);
    while !done() && now_ns() < limit_ns {
        sleep(PAUSE);
    }
}

fn pause(options: &Options, shared: &Shared, what: &str, time: Duration) {
    let end_ns = now_ns() + nanoseconds(time);
    progress(options, shared, what);
    while now_ns() + MILLISECOND_NS < end_ns {
        crate::clock::sleep_until(end_ns.min(now_ns() + 5 * SECOND_NS));
        progress(options, shared, what);
    }
}

fn progress(options: &Options, shared: &Shared, what: &str) {
    if options.quiet {
        return;
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    eprintln!(
        "{}: {what}: {} publishing, {} connections made, {} playing, {} lost",
        options.label,
        count(&shared.publishing),
        count(&shared.connected),
        count(&shared.playing),
        count(&shared.lost),
    );
}

fn join_players(threads: Vec<Players>) -> Result<BTreeMap<Protocol, Meter>, LoadError> {
    let mut all: BTreeMap<Protocol, Meter> = BTreeMap::new();
    for thread in threads {
        for (protocol, meter) in joined(thread)? {
            all.entry(protocol).or_default().add(&meter);
        }
    }
    Ok(all)
}

fn joined<T>(thread: JoinHandle<Result<T, LoadError>>) -> Result<T, LoadError> {
    thread.join().unwrap_or_else(|_| {
        Err(LoadError::Options(
            "a thread of this tool failed; see above".to_owned(),
        ))
    })
}

/// What publishers and players measured.
fn report(
    options: &Options,
    shared: &Shared,
    meters: BTreeMap<Protocol, Meter>,
    published: PublisherMeter,
) -> Report {
    let window_s = options.duration.as_secs_f64();
    let expected = match (options.play_only, &options.file) {
        (false, _) => Some(published.frames as f64 / f64::from(options.publishers.max(1))),
        (true, None) => Some(options.shape().messages_per_second() * window_s),
        (true, Some(_)) => None,
    };
    let players = meters.into_iter().map(|(protocol, meter)| {
        (
            protocol.label().to_owned(),
            PlayerReport::new(protocol, meter, window_s, expected),
        )
    });
    Report {
        label: options.label.clone(),
        window_s,
        players: players.collect(),
        publishers: PublisherReport::new(published, shared.publishing.load(Ordering::Relaxed)),
        server: None,
        load_core_share: 0.0,
    }
}
