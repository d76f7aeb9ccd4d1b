//! Warns of a pool whose command does not speak the worker protocol: the log names it within seconds, with what to type
//! instead. Once for a pool: its later failures appear elsewhere.

use std::collections::HashMap;
use std::time::Duration;

use tracing::warn;

use model::{Bytes, Instant, SlotId, WorkerId};
use process::Children;
use supervisor::Event;

/// How long a pool's first worker may load its application before the warning.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pools whose command has yet to show that it is a worker.
#[derive(Debug, Default)]
pub(super) struct Mutes {
    pools: HashMap<u16, Watch>,
    /// The last output of lives that never took a job, by slot.
    last_words: HashMap<SlotId, String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Watch {
    /// The first life of the pool, and until when it may be silent.
    Loading(WorkerId, Instant),
    /// A worker was ready, or the warning was given.
    Settled,
}

/// The reason of a warning.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Silent(WorkerId),
    Ended(WorkerId, String),
}

impl Mutes {
    /// A life ended without a job, with this output.
    pub(super) fn stillborn(&mut self, slot: SlotId, last_words: String) {
        self.last_words.insert(slot, last_words);
    }

    /// A worker of the slot takes jobs.
    pub(super) fn spoke(&mut self, slot: SlotId) {
        self.last_words.remove(&slot);
    }

    /// What the last life of the slot printed, if it never took a job.
    pub(super) fn last_words(&self, slot: SlotId) -> Option<String> {
        self.last_words.get(&slot).cloned()
    }

    /// Warns of what the events of this moment show.
    pub(super) fn hear(&mut self, now: Instant, facts: &[Event], children: &Children) {
        for fact in facts {
            let found = self.take_in(now, fact, |worker| children.speaker(worker).is_some());
            found.into_iter().for_each(|found| self.warn_of(&found, children));
        }
    }

    /// Warns of lives that have been silent for too long.
    pub(super) fn look(&mut self, now: Instant, children: &Children) {
        while let Some(found) = self.overdue(now) {
            self.warn_of(&found, children);
        }
    }

    fn warn_of(&self, found: &Found, children: &Children) {
        let (Found::Silent(worker) | Found::Ended(worker, _)) = found;
        let Some(argv) = children.speaker(*worker) else { return };
        let last_words = self.last_words.get(&worker.slot).map_or("", String::as_str);
        if let Some(words) = words(found, argv, last_words) {
            warn!(pool = &*children.pool(worker.slot.pool), "{words}");
        }
    }

    /// Handles an event; `speaks` says whether a life must speak the worker protocol.
    fn take_in(&mut self, now: Instant, event: &Event, speaks: impl Fn(WorkerId) -> bool) -> Option<Found> {
        if let Event::Spawned(worker) = event
            && speaks(*worker)
        {
            self.pools.entry(worker.slot.pool).or_insert(Watch::Loading(*worker, now + PATIENCE));
        }
        if let Event::Ready(worker) = event {
            self.pools.insert(worker.slot.pool, Watch::Settled);
        }
        let Event::Exited { worker, exit, .. } = event else { return None };
        let watch = self.pools.get_mut(&worker.slot.pool).filter(|watch| watch.is_of(*worker))?;
        *watch = Watch::Settled;
        Some(Found::Ended(*worker, exit.status.to_string()))
    }

    /// The next moment at which a life has been silent for too long.
    pub(super) fn due(&self) -> Option<Instant> {
        self.pools.values().filter_map(Watch::until).min()
    }

    fn overdue(&mut self, now: Instant) -> Option<Found> {
        let watch = self.pools.values_mut().find(|watch| watch.until().is_some_and(|until| until <= now))?;
        match std::mem::replace(watch, Watch::Settled) {
            Watch::Loading(worker, _) => Some(Found::Silent(worker)),
            Watch::Settled => None,
        }
    }
}

impl Watch {
    fn is_of(&self, worker: WorkerId) -> bool {
        matches!(self, Watch::Loading(of, _) if *of == worker)
    }

    fn until(&self) -> Option<Instant> {
        match self {
            Watch::Loading(_, until) => Some(*until),
            Watch::Settled => None,
        }
    }
}

/// The text of the warning; None for a worker of ours that takes long to load.
fn words(found: &Found, argv: &[Bytes], last_words: &str) -> Option<String> {
    let line: Vec<_> = argv.iter().map(Bytes::to_text).collect();
    // A worker of the Python package speaks the protocol: if it is silent it only loads for long.
    let is_ours = line.iter().any(|word| word.starts_with("taskvisor."));
    let advice = if is_ours { String::new() } else { format!("; {}", advice(&line)) };
    let line = line.join(" ");
    match found {
        Found::Silent(_) if is_ours => None,
        Found::Silent(_) => Some(format!(
            "`{line}` has said nothing for {} s, where a worker says hello by the worker protocol{advice}",
            PATIENCE.as_secs()
        )),
        Found::Ended(_, how) => {
            let last = last_words.lines().rev().find(|line| !line.trim().is_empty());
            let last =
                last.map(|last| format!(", with the last words \"{}\"", last.trim())).unwrap_or_default();
            Some(format!("`{line}` ended ({how}) before it said hello by the worker protocol{last}{advice}"))
        }
    }
}

/// Advice on what to type instead.
fn advice<T: AsRef<str>>(line: &[T]) -> String {
    let words = || line.iter().map(AsRef::as_ref);
    let is_other = words().any(|word| matches!(word.rsplit('/').next(), Some("celery" | "rq" | "rqworker")));
    let is_python = words()
        .next()
        .is_some_and(|word| word.rsplit('/').next().is_some_and(|name| name.starts_with("python")));
    let script = words().skip(1).find(|word: &&str| word.ends_with(".py"));
    let module =
        script.map(|script| script.trim_end_matches(".py").trim_start_matches("./").replace('/', "."));
    // The module of a file elsewhere depends on its application's directory, which is not known here.
    let module = match module {
        Some(module) if module.starts_with('.') => Some("MODULE".to_owned()),
        Some(module) => Some(module),
        None => words()
            .filter(|_| is_python && !is_other)
            .skip_while(|word| *word != "-m")
            .nth(1)
            .map(ToOwned::to_owned),
    };
    match module {
        Some(module) => format!(
            "jobs of a Python module are run by: taskvisor start -- python3 -m taskvisor.worker {module}"
        ),
        None if is_other => {
            "functions of a Celery or RQ application become jobs with @taskvisor.job, and are run by: \
                             taskvisor start -- python3 -m taskvisor.worker MODULE"
                .into()
        }
        None => format!(
            "a program that is a job is queued: taskvisor start, and taskvisor put -- {}",
            words().collect::<Vec<_>>().join(" ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Exit, ExitStatus, SlotId, Usage};

    fn worker(generation: u32) -> WorkerId {
        WorkerId { slot: SlotId { pool: 0, index: 1 }, generation }
    }

    #[test]
    fn first_silent_worker_of_a_pool_is_logged_once() {
        let (mut mutes, now) = (Mutes::default(), Instant(1_000_000_000));
        let heard = |mutes: &mut Mutes, event| mutes.take_in(now, &event, |_| true);
        assert_eq!(heard(&mut mutes, Event::Spawned(worker(1))), None);
        assert_eq!((mutes.due(), mutes.overdue(now)), (Some(now + PATIENCE), None));
        assert_eq!(mutes.overdue(now + PATIENCE), Some(Found::Silent(worker(1))));
        assert_eq!(mutes.due(), None);
        heard(&mut mutes, Event::Spawned(worker(2)));
        assert_eq!(mutes.due(), None);
    }

    #[test]
    fn exit_before_hello_is_logged_but_not_one_after_it() {
        let (mut mutes, now) = (Mutes::default(), Instant(0));
        let exited = |worker, code| {
            let (status, usage) = (ExitStatus::Code(code), Usage::default());
            let exit = Exit {
                status,
                usage,
                left_behind: 0,
                oom: false,
                oom_at_bound: false,
                proof: Duration::ZERO,
            };
            Event::Exited { worker, exit, followed: false }
        };
        let mut heard = |event| mutes.take_in(now, &event, |_| true);
        heard(Event::Spawned(worker(1)));
        assert_eq!(heard(exited(worker(9), 0)), None, "another's");
        let ended = heard(exited(worker(1), 0));
        assert!(matches!(ended, Some(Found::Ended(..))), "{ended:?}");
        let mut mutes = Mutes::default();
        let mut heard = |event| mutes.take_in(now, &event, |_| true);
        heard(Event::Spawned(worker(1)));
        heard(Event::Ready(worker(1)));
        assert_eq!(heard(exited(worker(1), 1)), None);
        let mut programs = Mutes::default();
        programs.take_in(now, &Event::Spawned(worker(1)), |_| false);
        assert_eq!(programs.due(), None, "a program that is a job need not speak");
    }

    #[test]
    fn log_suggests_the_right_command() {
        let said = |line: &str, found| {
            let argv: Vec<Bytes> = line.split(' ').map(Bytes::from).collect();
            words(&found, &argv, "a\nboom\n")
        };
        let silent = said("sleep 100", Found::Silent(worker(1))).unwrap();
        assert!(silent.starts_with("`sleep 100` has said nothing for 5 s"), "{silent}");
        assert!(silent.ends_with("taskvisor put -- sleep 100"), "{silent}");
        let ended = said("python3 app/tasks.py", Found::Ended(worker(1), "exit 0".into())).unwrap();
        assert!(ended.contains("ended (exit 0) before it said hello"), "{ended}");
        assert!(ended.contains("\"boom\"") && ended.ends_with("-m taskvisor.worker app.tasks"), "{ended}");
        for line in ["python3 /srv/app/tasks.py", "python3 ../app/tasks.py"] {
            let ended = said(line, Found::Ended(worker(1), "exit 0".into())).unwrap();
            assert!(ended.ends_with("-m taskvisor.worker MODULE"), "{ended}");
        }
        let module = said("/usr/bin/python3 -m app.tasks", Found::Silent(worker(1))).unwrap();
        assert!(module.ends_with("-m taskvisor.worker app.tasks"), "{module}");
        for line in ["celery -A app worker", "python3 -m celery -A app worker"] {
            assert!(said(line, Found::Silent(worker(1))).unwrap().contains("@taskvisor.job"));
        }
        let ours = "python3 -m taskvisor.worker app";
        assert_eq!(said(ours, Found::Silent(worker(1))), None);
        let broken = said(ours, Found::Ended(worker(1), "exit 1".into())).unwrap();
        assert!(broken.ends_with("with the last words \"boom\""), "{broken}");
    }
}
