//! What systemd is told of the service, as texts for the keeper to pass on (sd_notify).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{Instant, PoolStatus, SlotState};

/// Between two lines of `STATUS=`.
const PAUSE: Duration = Duration::from_secs(5);

/// How long after the stop deadline the last of us may take.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// The service as systemd knows it.
#[derive(Debug)]
pub(super) struct Systemd {
    /// Whether anybody hears us.
    heard: bool,
    ready: bool,
    stopping: bool,
    /// Whether systemd waits for the end of a reload.
    reloading: bool,
    shown: String,
    /// Before this moment no other line is due.
    quiet_until: Instant,
    due: Option<Instant>,
}

impl Systemd {
    pub fn new(heard: bool) -> Self {
        Systemd {
            heard,
            ready: false,
            stopping: false,
            reloading: false,
            shown: String::new(),
            quiet_until: Instant(0),
            due: None,
        }
    }

    /// The first worker is there: the service is up. Said once.
    pub fn ready(&mut self) -> Option<String> {
        let news = self.heard && !std::mem::replace(&mut self.ready, true);
        news.then(|| "READY=1".into())
    }

    /// A stop was ordered. Said once, with the time that it may take.
    pub fn stopping(&mut self, deadline: Duration) -> Option<String> {
        let news = self.heard && !std::mem::replace(&mut self.stopping, true);
        let most = (deadline + LAST_BREATH).as_micros();
        news.then(|| format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={most}"))
    }

    /// New settings are being taken in. `monotonic` is the time by CLOCK_MONOTONIC.
    /// Before the service is up there is nothing to reload.
    pub fn reloading(&mut self, monotonic: Duration) -> Option<String> {
        let news = self.ready && !std::mem::replace(&mut self.reloading, true);
        let micros = monotonic.as_micros();
        news.then(|| format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=reloading"))
    }

    /// The new settings are in force, or were refused: the end of a reload that systemd was told of.
    pub fn reloaded(&mut self, taken: bool) -> Option<String> {
        // What was shown before is not what is shown now.
        self.shown.clear();
        let how =
            if taken { "settings reloaded" } else { "settings refused, nothing was changed: see the log" };
        std::mem::take(&mut self.reloading).then(|| format!("READY=1\nSTATUS={how}"))
    }

    /// Something happened: the line may be another one.
    pub fn changed(&mut self, now: Instant) {
        if self.heard {
            self.due.get_or_insert(self.quiet_until.max(now));
        }
    }

    /// When to look whether the line is another one.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The new line, if it is due and differs from what is shown.
    pub fn status(&mut self, now: Instant, line: impl FnOnce() -> String) -> Option<String> {
        self.due.take_if(|due| *due <= now)?;
        let line = line();
        if line == self.shown {
            return None;
        }
        self.quiet_until = now + PAUSE;
        self.shown.clone_from(&line);
        Some(format!("STATUS={line}"))
    }
}

/// How the service is, in a line.
pub(super) fn line(pools: &[PoolStatus], settled: &BTreeMap<String, u64>, stopping: bool) -> String {
    let slots = || pools.iter().flat_map(|pool| &pool.slots);
    let count = |wanted: SlotState| slots().filter(|slot| slot.state == wanted).count();
    let mut words = vec![format!("{} slots", slots().count()), format!("{} busy", count(SlotState::Busy))];
    let down = count(SlotState::Down) + count(SlotState::Unkillable);
    if down > 0 && !stopping {
        words.push(format!("{down} down"));
    }
    words.extend(settled.iter().map(|(verdict, count)| format!("{count} {verdict}")));
    let stage = if stopping { "stopping: " } else { "" };
    format!("{stage}{}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PoolSettings, Settings};
    use crate::supervisor::Supervisor;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1_000)
    }

    #[test]
    fn it_is_told_once_of_the_first_worker_and_of_the_stop() {
        let mut systemd = Systemd::new(true);
        assert_eq!(systemd.ready().as_deref(), Some("READY=1"));
        assert_eq!(systemd.ready(), None);
        let stop = systemd.stopping(Duration::from_secs(25));
        assert_eq!(stop.as_deref(), Some("STOPPING=1\nEXTEND_TIMEOUT_USEC=35000000"));
        assert_eq!(systemd.stopping(Duration::from_secs(25)), None);
    }

    #[test]
    fn a_line_goes_out_when_it_is_new_and_not_often() {
        let mut systemd = Systemd::new(true);
        assert_eq!(systemd.due(), None, "what does not change wakes nobody");
        systemd.changed(at(1));
        assert_eq!(systemd.status(at(1), || "a".into()).as_deref(), Some("STATUS=a"));
        systemd.changed(at(2));
        systemd.changed(at(3));
        assert_eq!(systemd.due(), Some(at(6)));
        assert_eq!(systemd.status(at(3), || "b".into()), None, "too early");
        assert_eq!(systemd.status(at(6), || "a".into()), None, "nothing new");
        assert_eq!(systemd.due(), None);
        systemd.changed(at(7));
        assert_eq!(systemd.status(at(7), || "b".into()).as_deref(), Some("STATUS=b"));
    }

    #[test]
    fn where_nobody_listens_nothing_is_said_and_nobody_woken() {
        let mut systemd = Systemd::new(false);
        systemd.changed(at(1));
        assert_eq!(systemd.due(), None);
        assert_eq!(systemd.ready().or(systemd.stopping(Duration::ZERO)), None);
        assert_eq!(systemd.ready().or(systemd.reloading(Duration::ZERO)).or(systemd.reloaded(true)), None);
    }

    #[test]
    fn a_reload_says_when_it_began() {
        let mut systemd = Systemd::new(true);
        assert_eq!(systemd.reloading(Duration::ZERO), None, "it is not up yet");
        systemd.ready();
        let begun = systemd.reloading(Duration::from_millis(1_500));
        assert_eq!(begun.as_deref(), Some("RELOADING=1\nMONOTONIC_USEC=1500000\nSTATUS=reloading"));
        assert_eq!(systemd.reloaded(true).as_deref(), Some("READY=1\nSTATUS=settings reloaded"));
        assert_eq!(systemd.reloaded(true), None, "the API's reload is none of systemd's business");
    }

    #[test]
    fn the_line_counts_slots_and_jobs() {
        let settings = Settings { pools: vec![PoolSettings::default()], ..Settings::default() };
        let supervisor = Supervisor::new(settings, at(0));
        let mut pools = supervisor.status(at(0));
        let slots = pools[0].slots.len();
        let settled = BTreeMap::from([("complete".to_owned(), 12)]);
        assert_eq!(line(&pools, &settled, false), format!("{slots} slots, 0 busy, 12 complete"));
        pools[0].slots[0].state = SlotState::Busy;
        assert_eq!(line(&pools, &settled, true), format!("stopping: {slots} slots, 1 busy, 12 complete"));
    }
}
