//! The loop: orders out, one input in. Every decision is the supervisor's, every effect is `Outside`'s.

use std::io;

use tokio::sync::oneshot;

use super::asks::Asks;
use super::inbox::{Inbox, Input};
use super::outside::Outside;
use crate::clock;
use crate::model::{Counters, PoolStatus, Process, Stop};
use crate::process::usage;
use crate::supervisor::{Event, Supervisor};

/// What somebody wants from the loop.
pub enum Request {
    /// What the supervisor sees, with the process of each slot.
    View(oneshot::Sender<View>),
    /// Whether the loop turns.
    Turn(oneshot::Sender<()>),
    /// End.
    Stop(Stop),
}

/// The loop's part of a status.
pub struct View {
    /// The pools with their slots, of whose processes only the pid is known.
    pub pools: Vec<PoolStatus>,
    /// Settled since the start, by verdict.
    pub settled: std::collections::BTreeMap<String, u64>,
    /// How far the stop has come.
    pub stopping: Option<Stop>,
    /// What is wrong with the writing of logs.
    pub log_trouble: Option<String>,
    /// The keeper as /proc shows it.
    pub keeper: Process,
    /// Supervisors that ended before this one.
    pub restarts: u32,
    /// What was counted.
    pub counters: Counters,
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
        outside.flush()?;
        if outside.is_done() {
            return Ok(Ended::Stopped);
        }
        let deadline = supervisor.poll_timeout().into_iter().chain(outside.due()).min();
        let mut facts = Vec::new();
        match inbox.next(&mut outside, deadline).await? {
            Input::Event(event) => facts.push(event),
            Input::Letter(letter) => facts = outside.heard(letter, &mut asks)?,
            Input::Output => facts = listen(&mut outside)?,
            Input::Answer(answer) => outside.children.reply(answer.worker, answer.n, answer.result),
            Input::Request(Request::Stop(stop)) => facts.push(Event::Stop(stop)),
            Input::Request(Request::Turn(answer)) => drop(answer.send(())),
            Input::Request(Request::View(answer)) => drop(answer.send(view(&supervisor, &outside))),
            Input::Timeout if outside.children.due().is_some_and(|at| at <= clock::now()) => {
                facts = listen(&mut outside)?;
            }
            Input::Timeout => {}
            Input::KeeperGone => return Ok(Ended::KeeperGone),
        }
        // Facts of one moment are told together.
        facts.extend(std::iter::from_fn(|| inbox.try_next()));
        tell(&mut supervisor, &mut outside, facts);
    }
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
    facts.iter().for_each(|event| outside.note(event));
    supervisor.handle_all(clock::now(), facts);
}

fn view(supervisor: &Supervisor, outside: &Outside) -> View {
    let mut pools = supervisor.status(clock::now());
    for slot in pools.iter_mut().flat_map(|pool| pool.template.iter_mut().chain(&mut pool.slots)) {
        let worker = crate::model::WorkerId { slot: slot.slot, generation: slot.generation };
        // Only who; the rest is looked up by whoever asked.
        slot.process = outside.children.pid(worker).map(|pid| Process { pid, ..Process::default() });
        slot.trace = outside.stillborn.get(&slot.slot).cloned();
        for job in &mut slot.jobs {
            job.progress = outside.reports.latest(&job.id).cloned();
        }
    }
    let (output_dropped, log_trouble) = outside.logs.trouble();
    View {
        pools,
        settled: supervisor.settled().clone(),
        stopping: supervisor.stopping(),
        log_trouble,
        keeper: usage::process(outside.hello.pid).unwrap_or_default(),
        restarts: outside.hello.restarts,
        counters: Counters { output_dropped, ..outside.counting.counters.clone() },
    }
}
