//! The loop: orders out, one input in. Every decision is the supervisor's, every effect is `Outside`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use tokio::sync::oneshot;

use super::asks::Asks;
use super::calls::SETTLING;
use super::census::Counted;
use super::event_log::Line;
use super::explain::{Answer, Asked, explain};
use super::flood::Kind;
use super::inbox::{Inbox, Input};
use super::mutes;
use super::news;
use super::orders;
use super::outside::Outside;
use super::reload::Fresh;
use super::service::Queues;
use crate::api::Problem;
use crate::clock;
use crate::model::{Change, Counters, LogStatus, Millis, PoolStatus, Process, QueueName, Stop};
use crate::process::usage;
use crate::supervisor::{Event, Step, Supervisor};
use crate::wire::keeper::Order;

/// What somebody wants from the loop.
pub(super) enum Request {
    /// What the supervisor sees, with the process of each slot.
    View(oneshot::Sender<View>),
    /// What it knows about something.
    Why(Asked, Answer),
    /// Whether the loop turns.
    Turn(oneshot::Sender<()>),
    /// Ask something of a pool, or of all; refused in words.
    Change {
        /// None = all.
        pool: Option<String>,
        /// What.
        change: Change,
        /// Who asks.
        by: String,
        /// When it is done and kept.
        answer: oneshot::Sender<Result<(), Problem>>,
    },
    /// Settings were read, or could not be.
    Reload {
        /// They, or what is wrong with them.
        fresh: Result<Fresh, String>,
        /// Whether only to say what would change.
        rehearsal: bool,
        /// Who asks.
        by: String,
        /// What changes.
        answer: oneshot::Sender<Vec<(String, Step)>>,
    },
    /// From which queues it takes jobs.
    Queues(oneshot::Sender<BTreeSet<QueueName>>),
    /// Tell when no job is here.
    AtRest(oneshot::Sender<()>),
    /// End; and who asks.
    Stop(Stop, String),
    /// Write this to the log.
    Log(Line),
    /// The queues were counted, as the loop had asked.
    Counted(Counted<Queues>),
}

/// The loop's part of a status.
pub struct View {
    /// The pools with their slots, of whose processes only the pid is known.
    pub pools: Vec<PoolStatus>,
    /// Settled since the start, by verdict.
    pub settled: BTreeMap<String, u64>,
    /// How far the stop has come.
    pub stopping: Option<Stop>,
    /// From the order to stop to the last KILL.
    pub stop_deadline: std::time::Duration,
    /// What of the logs was lost, and what is in the way.
    pub logs: LogStatus,
    /// Whether held jobs make the verdict degraded.
    pub held_degrades: bool,
    /// What is wrong with the settings that were read last.
    pub settings_trouble: Option<String>,
    /// The keeper as /proc shows it.
    pub keeper: Process,
    /// Supervisors that ended before this one.
    pub restarts: u32,
    /// What was counted.
    pub counters: Counters,
}

#[cfg(test)]
impl View {
    /// Of these pools, and else of nothing.
    pub(super) fn of(pools: Vec<PoolStatus>) -> View {
        View {
            pools,
            settled: BTreeMap::new(),
            stopping: None,
            stop_deadline: std::time::Duration::ZERO,
            logs: LogStatus::default(),
            held_degrades: true,
            settings_trouble: None,
            keeper: Process::default(),
            restarts: 0,
            counters: Counters::default(),
        }
    }
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop, and nothing is left.
    Stopped,
    /// The keeper is gone: whatever it held must be swept.
    KeeperGone,
}

/// Runs until there is nothing left to do.
pub(super) async fn run(
    mut supervisor: Supervisor,
    mut outside: Outside,
    mut inbox: Inbox,
) -> io::Result<Ended> {
    let mut asks = Asks::default();
    loop {
        carry_out(&mut supervisor, &mut outside);
        sign(&supervisor, &mut outside);
        mutes::look(&mut outside, clock::now());
        outside.flush()?;
        if outside.is_done() {
            let alive = outside.last.alive.join("; ");
            outside.newsroom.close(Millis(clock::wall_millis()), outside.last.untold, alive).await;
            leave(&outside).await;
            orders::stopped(
                &supervisor.settled(),
                outside.last.untold,
                clock::now().since(outside.record.started),
            )
            .write();
            return Ok(Ended::Stopped);
        }
        let deadline =
            supervisor.poll_timeout().into_iter().chain(outside.due()).chain(outside.mutes.due()).min();
        let mut facts = Vec::new();
        match inbox.next(&mut outside, deadline).await? {
            Input::Event(event) => facts.push(event),
            Input::Letter(letter) => {
                facts = outside.heard(letter, &mut asks)?;
                for (event, by) in std::mem::take(&mut outside.record.by_signal) {
                    ordered(&mut supervisor, &mut outside, event, by);
                }
            }
            Input::Output => facts = listen(&mut outside)?,
            Input::Answer(answer) => outside.children.reply(answer.worker, answer.n, answer.frame),
            Input::Seen(seen) => outside.seen(seen),
            Input::Request(request) => answer(request, &mut supervisor, &mut outside),
            Input::Timeout if outside.children.due().is_some_and(|at| at <= clock::now()) => {
                facts = listen(&mut outside)?;
            }
            Input::Timeout => {}
            Input::KeeperGone => return Ok(Ended::KeeperGone),
        }
        // Facts of one moment are told together.
        facts.extend(std::iter::from_fn(|| inbox.try_next()));
        tell(&mut supervisor, &mut outside, facts);
        outside.tell_those_who_wait(supervisor.is_at_rest());
        if supervisor.has_told_all() {
            outside.wrong.moot(SETTLING, clock::now());
        }
    }
}

/// Answers a request; one that changes something when that is done and kept.
fn answer(request: Request, supervisor: &mut Supervisor, outside: &mut Outside) {
    match request {
        Request::View(answer) => drop(answer.send(view(supervisor, outside))),
        Request::Why(asked, answer) => drop(answer.send(explain(supervisor, outside, &asked))),
        Request::Turn(answer) => drop(answer.send(())),
        Request::Queues(answer) => drop(answer.send(supervisor.queues().cloned().collect())),
        Request::AtRest(answer) => outside.waiting_for_rest.push(answer),
        Request::Stop(stop, by) => ordered(supervisor, outside, Event::Stop(stop), &by),
        Request::Change { pool, change, by, answer } => {
            let answered = refusal(pool.as_deref(), supervisor).map_or(Ok(()), Err);
            if answered.is_ok() {
                ordered(supervisor, outside, Event::Change(pool, change), &by);
            }
            drop(answer.send(answered));
        }
        Request::Reload { fresh, rehearsal, by, answer } => {
            drop(answer.send(reload(fresh, (rehearsal, &by), supervisor, outside)));
        }
        Request::Log(line) => outside.record.log_order(Kind::Asked, line),
        Request::Counted(counted) => {
            let view = view(supervisor, outside);
            outside.judge(&view, &counted);
        }
    }
}

/// Carries out the order of a person.
fn ordered(supervisor: &mut Supervisor, outside: &mut Outside, event: Event, by: &str) {
    let pools = supervisor.status(clock::now());
    outside.note_order(&event, by, &pools);
    tell(supervisor, outside, vec![event]);
}

fn reload(
    fresh: Result<Fresh, String>,
    (rehearsal, by): (bool, &str),
    supervisor: &mut Supervisor,
    outside: &mut Outside,
) -> Vec<(String, Step)> {
    if !rehearsal {
        outside.settings_trouble = fresh.as_ref().err().cloned();
        outside.record.watch.changed(clock::now());
        let words = outside.systemd.reloaded(fresh.is_ok());
        outside.notify(words);
    }
    let (file, Fresh { mut settings, outfits, keep, .. }) = match fresh {
        Ok(fresh) => (fresh.file.clone(), fresh),
        Err(why) => {
            if !rehearsal {
                outside.record.log_order(Kind::Orders, orders::refused(&why, by));
                news::reloaded(&outside.newsroom, Err(&why), by);
            }
            return Vec::new();
        }
    };
    outside.wardrobe.number(&mut settings, outfits);
    let steps = supervisor.preview(&settings);
    if !rehearsal {
        outside.record.log_order(Kind::Orders, orders::reloaded(file.as_deref(), &steps, by));
        news::reloaded(&outside.newsroom, Ok(&steps), by);
        keep();
        outside.lease = settings.lease;
        outside.stop_deadline = settings.stop_deadline;
        outside.record.held_degrades = settings.held_degrades;
        outside.link.order(&Order::StopDeadline(settings.stop_patience()));
        tell(supervisor, outside, vec![Event::Reload(settings)]);
    }
    steps
}

/// Why nothing can be asked of that pool.
fn refusal(pool: Option<&str>, supervisor: &Supervisor) -> Option<Problem> {
    if supervisor.stopping().is_some() {
        return Some(Problem::unavailable("the supervisor is stopping"));
    }
    let pool = pool.filter(|pool| !supervisor.pool_names().any(|name| name == *pool))?;
    let names: Vec<&str> = supervisor.pool_names().collect();
    Some(Problem::not_found(format!("no pool is called '{pool}'; there are: {}", names.join(", "))))
}

/// Carries out every command, also those that follow from facts that are known at once.
fn carry_out(supervisor: &mut Supervisor, outside: &mut Outside) {
    loop {
        while let Some(command) = supervisor.next_command() {
            outside.perform(command);
        }
        let known = outside.take_known();
        if known.is_empty() {
            return;
        }
        tell(supervisor, outside, known);
    }
}

/// Reads what children print and say.
fn listen(outside: &mut Outside) -> io::Result<Vec<Event>> {
    let words = outside.children.turn(clock::now())?;
    Ok(outside.said(words))
}

fn tell(supervisor: &mut Supervisor, outside: &mut Outside, facts: Vec<Event>) {
    let now = clock::now();
    if !facts.is_empty() {
        outside.record.watch.changed(now);
        outside.signs.changed();
    }
    facts.iter().for_each(|event| outside.note(event));
    if supervisor.stopping().is_none() {
        mutes::hear(outside, now, &facts);
    }
    let lasts = facts.iter().any(|event| matches!(event, Event::Change(..) | Event::Reload(_)));
    supervisor.handle_all(now, facts);
    if lasts {
        (outside.keep_changes)(&supervisor.changes(), &outside.record.pauses);
    }
}

/// Tells all who share the broker what there is here, if that is due.
fn sign(supervisor: &Supervisor, outside: &mut Outside) {
    if let Some(sign) = outside.signs.take(clock::now(), &outside.instance, supervisor) {
        outside.broker.sign(sign);
    }
}

/// Who looks is not to take us for dead. A broker that does not answer holds up no end.
async fn leave(outside: &Outside) {
    const PATIENCE: Duration = Duration::from_secs(1);
    if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, outside.broker.leave()).await {
        tracing::debug!(%error, "the others are not told that this supervisor stops");
    }
}

fn view(supervisor: &Supervisor, outside: &Outside) -> View {
    let mut pools = supervisor.status(clock::now());
    outside.wardrobe.name_users(supervisor.outfits(), pools.iter_mut());
    for pool in &mut pools {
        pool.pause = outside.record.pauses.of(pool);
    }
    for slot in pools.iter_mut().flat_map(|pool| pool.template.iter_mut().chain(&mut pool.slots)) {
        let worker = crate::model::WorkerId { slot: slot.place, generation: slot.generation };
        // Only who; the rest is looked up by whoever asked.
        slot.process = outside.children.pid(worker).map(|pid| Process { pid, ..Process::default() });
        slot.warning = outside.children.warning(worker).map(Into::into);
        slot.trace = outside.stillborn.get(&slot.place).cloned();
        for job in &mut slot.jobs {
            job.progress = outside.reports.latest(&job.id).cloned();
        }
    }
    let logs = outside.log_status();
    View {
        pools,
        settled: supervisor.settled(),
        stopping: supervisor.stopping(),
        held_degrades: outside.record.held_degrades,
        stop_deadline: outside.stop_deadline,
        settings_trouble: outside.settings_trouble.clone(),
        keeper: usage::process(outside.hello.pid).unwrap_or_default(),
        restarts: outside.hello.restarts,
        counters: Counters { tallies: supervisor.tallies().clone(), ..outside.counting.counters.clone() },
        logs,
    }
}
