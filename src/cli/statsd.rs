//! `stats --statsd`: sends the figures of all queues as gauges by UDP.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{UdpSocket, lookup_host};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::access::Access;
use config::{Config, parse_duration};
use failure::{Failure, exit};
use model::verb::{Failed, FailureGroup, Queues, Stats, Times};
use model::{JobState, Millis, QueueCounts, QueueName};

pub(super) const HELP: &str = "\
Sends gauges once, or again and again: PREFIX.queues.QUEUE.waiting and the like, PREFIX.failures.GROUP, PREFIX.failed. In names what is no letter, digit, - or _ becomes _.

Examples:
  taskvisor stats --statsd localhost:8125
  taskvisor stats --statsd statsd.example:8125 --every 10s --prefix jobs.production";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address of the StatsD server
    #[arg(long, value_name = "HOST:PORT", required = true)]
    statsd: String,
    /// Send again after this time, until told to stop
    #[arg(long, value_name = "DURATION", value_parser = pause)]
    every: Option<Duration>,
    /// What all names begin with
    #[arg(long, value_name = "PREFIX", default_value = "taskvisor")]
    prefix: String,
}

/// Shortest interval: more frequent requests would only load the broker.
const SHORTEST: Duration = Duration::from_secs(1);

fn pause(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        pause if pause < SHORTEST => Err("1s is the shortest".into()),
        pause => Ok(pause),
    }
}

/// Sends them. If the first try fails, that is an error; later failures are reported, and the next interval tries
/// again.
pub(super) async fn stats(config: &Config, args: &Args) -> Result<u8, Failure> {
    round(config, args).await?;
    let Some(every) = args.every else { return Ok(exit::OK) };
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut ticks = tokio::time::interval(every);
    // The first tick comes at once, and the first round is over.
    ticks.tick().await;
    let mut said = None;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = term.recv() => return Ok(exit::OK),
            _ = int.recv() => return Ok(exit::OK),
        }
        let wrong = round(config, args).await.err();
        let words = wrong.as_ref().map(Failure::in_a_line);
        // The same trouble is printed once, not every interval.
        if let Some(wrong) = wrong.filter(|_| words != said) {
            wrong.print();
        }
        said = words;
    }
}

async fn round(config: &Config, args: &Args) -> Result<(), Failure> {
    // Resolved each time, as the address may change between two rounds.
    let server = resolved(&args.statsd).await?;
    let figures = gathered(&Access::open(config).await?).await?;
    let lines = lines(&figures, &args.prefix, clock::wall());
    // A socket of IPv4 cannot send to an address of IPv6.
    let own: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let failed =
        |error| Failure::from(error).of(format!("failed to send to the StatsD server {}", args.statsd));
    let socket = UdpSocket::bind(own).await.map_err(failed)?;
    for packet in packets(&lines) {
        socket.send_to(packet.as_bytes(), server).await.map_err(failed)?;
    }
    Ok(())
}

async fn resolved(place: &str) -> Result<SocketAddr, Failure> {
    let port = place.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    if !matches!(port, Some(Ok(1..))) {
        return Err(Failure::new(exit::USAGE, format!("'{place}' is no HOST:PORT"))
            .hint("--statsd localhost:8125, or --statsd '[::1]:8125'"));
    }
    let unknown = |why: String| {
        Failure::new(exit::UNAVAILABLE, why)
            .of(format!("failed to find the StatsD server {place}"))
            .hint("is the host of --statsd spelled right, and does `getent hosts` find it?")
    };
    let mut found = lookup_host(place).await.map_err(|error| unknown(error.to_string()))?;
    found.next().ok_or_else(|| unknown("the name has no address".into()))
}

/// The figures to send.
struct Figures {
    queues: BTreeMap<QueueName, (QueueCounts, Times, Times)>,
    groups: Vec<FailureGroup>,
}

async fn gathered(access: &Access) -> Result<Figures, Failure> {
    let mut queues = BTreeMap::new();
    for (queue, counts) in access.ask(Queues {}).await? {
        let (wait, run) = match access.ask(Stats { queue: queue.clone(), day: None }).await {
            Ok(day) => (day.wait, day.run),
            // It was forgotten a moment ago.
            Err(failure) if failure.code == exit::NOTHING_MATCHED => continue,
            Err(failure) => return Err(failure),
        };
        queues.insert(queue, (counts, wait, run));
    }
    Ok(Figures { queues, groups: access.ask(Failed::default()).await? })
}

/// One gauge a line. Queues whose names become equal when made safe are counted together.
fn lines(figures: &Figures, prefix: &str, now: Millis) -> Vec<String> {
    let mut gauges: BTreeMap<String, f64> = BTreeMap::new();
    let mut add = |name: String, value: f64| *gauges.entry(name).or_default() += value;
    for (queue, (counts, wait, run)) in &figures.queues {
        for (name, value) in of_queue(counts, now).into_iter().chain(of_times(wait, run)) {
            add(format!("queues.{}.{name}", safe(queue.as_str())), value);
        }
    }
    for group in &figures.groups {
        add(format!("failures.{}", safe(&group.group)), group.failed as f64);
    }
    add("failed".into(), figures.groups.iter().map(|group| group.failed as f64).sum());
    let prefix: Vec<String> = prefix.split('.').map(safe).collect();
    let prefix = prefix.join(".");
    gauges.into_iter().map(|(name, value)| format!("{prefix}.{name}:{}|g", number(value))).collect()
}

/// The figures under the names of qless-stats, where that has them.
fn of_queue(counts: &QueueCounts, now: Millis) -> Vec<(&'static str, f64)> {
    let of = |state: JobState| counts.jobs.get(&state).copied().unwrap_or(0) as f64;
    let oldest = counts.oldest_waiting.map_or(0, |at| now.0.saturating_sub(at.0).max(0));
    let today = &counts.today;
    vec![
        ("waiting", of(JobState::Waiting)),
        ("scheduled", of(JobState::Delayed)),
        ("depends", of(JobState::Depends)),
        ("running", of(JobState::Running)),
        ("canceling", of(JobState::Canceling)),
        ("held", of(JobState::Held)),
        ("paused", f64::from(u8::from(counts.paused.is_some()))),
        ("oldest_waiting", oldest as f64 / 1000.0),
        ("popped", today.wait.count as f64),
        ("completed", today.run.count as f64),
        ("retries", today.retries as f64),
        ("failures", today.failures as f64),
        ("failed", today.failed as f64),
    ]
}

fn of_times(wait: &Times, run: &Times) -> [(&'static str, f64); 4] {
    [("wait.avg", wait.mean), ("wait.std-dev", wait.std), ("run.avg", run.mean), ("run.std-dev", run.std)]
}

/// A name without special characters: servers split at dots, and interpret colons and bars.
fn safe(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    if name.is_empty() { "_".into() } else { name.chars().map(letter).collect() }
}

/// Whole numbers without a fraction, others with six decimals: jobs may take microseconds.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// Packs lines into packets small enough for any network.
fn packets(lines: &[String]) -> Vec<String> {
    // Ethernet carries 1,500 bytes, of which IP, UDP and tunnels take some.
    const MOST: usize = 1400;
    let mut packets: Vec<String> = Vec::new();
    for line in lines {
        match packets.last_mut().filter(|packet| packet.len() + line.len() < MOST) {
            Some(packet) => _ = write!(packet, "\n{line}"),
            None => packets.push(line.clone()),
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{JobId, Pause, Sum, Today};

    fn group(name: &str, failed: u64) -> FailureGroup {
        let (job, message) = (JobId::from("j"), String::new());
        FailureGroup { group: name.into(), failed, held: 0, newest: Millis(0), job, message }
    }

    #[test]
    fn statsd_line_is_a_gauge_with_an_escaped_name() {
        let today =
            Today { wait: Sum { count: 4, seconds: 8.0 }, failures: 2, failed: 1, ..Today::default() };
        let counts = QueueCounts {
            jobs: [(JobState::Waiting, 3), (JobState::Held, 1)].into(),
            oldest_waiting: Some(Millis(1_000)),
            paused: Some(Pause { since: Millis(0), by: String::new(), reason: None }),
            today,
            ..QueueCounts::default()
        };
        let wait = Times { count: 4, mean: 2.0, std: 0.000_25, ..Times::default() };
        let queues = [("a.b:c|d ü".into(), (counts, wait, Times::default()))].into();
        let groups = vec![group("exit 1", 2), group("exit.1", 3), group("", 1)];
        let lines = lines(&Figures { queues, groups }, "my jobs.eu", Millis(3_500));
        for line in [
            "my_jobs.eu.queues.a_b_c_d__.waiting:3|g",
            "my_jobs.eu.queues.a_b_c_d__.held:1|g",
            "my_jobs.eu.queues.a_b_c_d__.running:0|g",
            "my_jobs.eu.queues.a_b_c_d__.paused:1|g",
            "my_jobs.eu.queues.a_b_c_d__.oldest_waiting:2.5|g",
            "my_jobs.eu.queues.a_b_c_d__.popped:4|g",
            "my_jobs.eu.queues.a_b_c_d__.wait.avg:2|g",
            "my_jobs.eu.queues.a_b_c_d__.wait.std-dev:0.00025|g",
            "my_jobs.eu.failures.exit_1:5|g",
            "my_jobs.eu.failures._:1|g",
            "my_jobs.eu.failed:6|g",
        ] {
            assert!(lines.iter().any(|other| other == line), "{line}: {lines:#?}");
        }
    }

    #[test]
    fn packets_are_small_and_lose_no_line() {
        let lines: Vec<String> =
            (0..200).map(|number| format!("taskvisor.queues.q{number}.waiting:1|g")).collect();
        let packets = packets(&lines);
        assert!(packets.len() > 1 && packets.iter().all(|packet| packet.len() <= 1400));
        let back: Vec<&str> = packets.iter().flat_map(|packet| packet.lines()).collect();
        assert_eq!(back, lines);
    }

    #[tokio::test]
    async fn a_place_without_a_port_is_refused() {
        for place in ["localhost", "localhost:", "localhost:0", "localhost:70000", "::x"] {
            assert_eq!(resolved(place).await.unwrap_err().code, exit::USAGE, "{place}");
        }
        assert_eq!(resolved("127.0.0.1:8125").await.unwrap(), ([127, 0, 0, 1], 8125).into());
    }
}
