//! Status texts for systemd, which the keeper passes on (sd_notify).

use std::time::Duration;

use super::fact::{Fact, OfService, OfWorker};
use super::orders::counted;
use super::request::{Queues, View};
use model::{Health, JobState, SlotState};
use wire::notify;

/// How long the supervisor and the keeper may take to exit after the stop deadline.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// The status of the service as last sent to systemd.
#[derive(Debug)]
pub(super) struct Systemd {
    /// Whether systemd listens.
    heard: bool,
    ready: bool,
    stopping: bool,
    /// Whether systemd waits for the end of a reload.
    reloading: bool,
    shown: String,
}

impl Systemd {
    pub(crate) fn new(heard: bool) -> Self {
        Systemd { heard, ready: false, stopping: false, reloading: false, shown: String::new() }
    }

    /// The words for systemd about a fact.
    pub(crate) fn tell(&mut self, fact: &Fact) -> Option<String> {
        match fact {
            Fact::Worker(_, OfWorker::Ready) => self.ready(),
            Fact::Service(OfService::Stopping { deadline, .. }) => self.stopping(*deadline),
            Fact::Service(OfService::Reloaded { .. }) => self.reloaded(true),
            Fact::Service(OfService::ReloadRefused { .. }) => self.reloaded(false),
            Fact::Worker(..) | Fact::Job(..) | Fact::Pool(..) | Fact::Service(_) => None,
        }
    }

    /// The first worker is ready: the service is up. Sent once.
    fn ready(&mut self) -> Option<String> {
        let news = self.heard && !std::mem::replace(&mut self.ready, true);
        news.then(|| "READY=1".into())
    }

    /// A stop was ordered. Sent once, with the time that it may take.
    fn stopping(&mut self, deadline: Duration) -> Option<String> {
        let news = self.heard && !std::mem::replace(&mut self.stopping, true);
        // Else TimeoutStopSec of the unit would end a longer stop with a KILL.
        let most = (deadline + LAST_BREATH).as_micros();
        news.then(|| format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={most}"))
    }

    /// New settings are being applied. `monotonic` is the time by CLOCK_MONOTONIC. Before the service is up there is
    /// nothing to reload.
    pub(crate) fn reloading(&mut self, monotonic: Duration) -> Option<String> {
        let news = self.ready && !std::mem::replace(&mut self.reloading, true);
        // A unit of Type=notify-reload needs this time, to tell the READY that follows from an earlier one.
        let micros = monotonic.as_micros();
        news.then(|| format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=reloading"))
    }

    /// The new settings are in force, or were refused: ends the reload that systemd was told of.
    fn reloaded(&mut self, taken: bool) -> Option<String> {
        // systemd now shows another text.
        self.shown.clear();
        let how =
            if taken { "settings reloaded" } else { "settings refused, nothing was changed: see the log" };
        std::mem::take(&mut self.reloading).then(|| format!("READY=1\nSTATUS={how}"))
    }

    /// The new status line, if it differs from the last one.
    pub(crate) fn status(&mut self, line: impl FnOnce() -> String) -> Option<String> {
        let line = self.heard.then(line).filter(|line| *line != self.shown)?;
        self.shown.clone_from(&line);
        Some(notify::status(&line))
    }
}

/// The status line: the verdict with its first reason if not healthy, then the numbers of running and waiting jobs.
pub(super) fn line(view: &View, queues: &Queues, (health, reasons): &(Health, Vec<String>)) -> String {
    let slots = || view.pools.iter().flat_map(|pool| &pool.slots);
    let busy = slots().filter(|slot| slot.state == SlotState::Busy).count();
    let mut parts = vec![format!("{}, {busy} busy", counted(slots().count(), "slot"))];
    for (state, word) in [(JobState::Waiting, "waiting"), (JobState::Held, "held")] {
        let jobs: u64 = queues.values().filter_map(|queue| queue.jobs.get(&state)).sum();
        parts.extend((jobs > 0).then(|| format!("{jobs} {word}")));
    }
    parts.extend(view.settled.iter().map(|(verdict, number)| format!("{number} {verdict}")));
    let counts = parts.join(", ");
    let word = match (view.stopping, health) {
        (Some(_), _) => return format!("stopping: {counts}"),
        (None, Health::Healthy) => return counts,
        (None, Health::Degraded) => "degraded",
        (None, Health::Unhealthy) => "unhealthy",
    };
    let more = match reasons.len() {
        0 | 1 => String::new(),
        many => format!(" (and {} more)", many - 1),
    };
    let first = reasons.first().map(String::as_str).unwrap_or_default();
    format!("{word}: {first}{more}; {counts}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use model::{Instant, PoolSettings, QueueCounts, Settings, Stop};
    use supervisor::Supervisor;

    #[test]
    fn systemd_is_notified_once_of_the_first_worker_and_of_the_stop() {
        let mut systemd = Systemd::new(true);
        assert_eq!(systemd.ready().as_deref(), Some("READY=1"));
        assert_eq!(systemd.ready(), None);
        let stop = systemd.stopping(Duration::from_secs(25));
        assert_eq!(stop.as_deref(), Some("STOPPING=1\nEXTEND_TIMEOUT_USEC=35000000"));
        assert_eq!(systemd.stopping(Duration::from_secs(25)), None);
    }

    #[test]
    fn status_line_is_sent_only_when_it_changes() {
        let mut systemd = Systemd::new(true);
        assert_eq!(systemd.status(|| "a".into()).as_deref(), Some("STATUS=a"));
        assert_eq!(systemd.status(|| "a".into()), None, "nothing new");
        assert_eq!(systemd.status(|| "b".into()).as_deref(), Some("STATUS=b"));
    }

    #[test]
    fn reason_of_a_person_is_no_field_for_systemd() {
        let mut systemd = Systemd::new(true);
        let sent = systemd.status(|| "degraded: pool a is paused: x\nMAINPID=1\r\u{85}y".into());
        assert_eq!(sent.as_deref(), Some("STATUS=degraded: pool a is paused: x MAINPID=1  y"));
    }

    #[test]
    fn without_a_notify_socket_nothing_is_sent() {
        let mut systemd = Systemd::new(false);
        assert_eq!(systemd.status(|| "a".into()), None);
        assert_eq!(systemd.ready().or(systemd.stopping(Duration::ZERO)), None);
        assert_eq!(systemd.ready().or(systemd.reloading(Duration::ZERO)).or(systemd.reloaded(true)), None);
    }

    #[test]
    fn reload_notification_has_its_start_time() {
        let mut systemd = Systemd::new(true);
        assert_eq!(systemd.reloading(Duration::ZERO), None, "it is not up yet");
        systemd.ready();
        let begun = systemd.reloading(Duration::from_millis(1_500));
        assert_eq!(begun.as_deref(), Some("RELOADING=1\nMONOTONIC_USEC=1500000\nSTATUS=reloading"));
        assert_eq!(systemd.reloaded(true).as_deref(), Some("READY=1\nSTATUS=settings reloaded"));
        assert_eq!(systemd.reloaded(true), None, "the API's reload is none of systemd's business");
    }

    #[test]
    fn the_line_has_the_verdict_and_counts_slots_and_jobs() {
        let settings = Settings { pools: vec![PoolSettings::default()], ..Settings::default() };
        let supervisor = Supervisor::new(settings, Instant::from_millis(0));
        let mut view = View::of(supervisor.status(Instant::from_millis(0)));
        view.settled = BTreeMap::from([("complete".to_owned(), 12)]);
        view.pools[0].slots[0].state = SlotState::Busy;
        let jobs = BTreeMap::from([(JobState::Waiting, 3), (JobState::Held, 1)]);
        let queues = BTreeMap::from([("q".into(), QueueCounts { jobs, ..QueueCounts::default() })]);
        let healthy = (Health::Healthy, vec![]);
        assert_eq!(line(&view, &Queues::default(), &healthy), "1 slot, 1 busy, 12 complete");
        let degraded = (Health::Degraded, vec!["1 held".into(), "b".into()]);
        let counts = "1 slot, 1 busy, 3 waiting, 1 held, 12 complete";
        assert_eq!(line(&view, &queues, &degraded), format!("degraded: 1 held (and 1 more); {counts}"));
        view.stopping = Some(Stop::Drain);
        assert_eq!(line(&view, &queues, &degraded), format!("stopping: {counts}"));
    }
}
