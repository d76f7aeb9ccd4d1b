//! The loop: commands out, one input in. Every decision is the supervisor's, every effect is that of `Effects`.

use std::io;
use std::time::Duration;

use super::announce::{judge, note_order};
use super::asks::Asks;
use super::calls::SETTLING;
use super::effects::Effects;
use super::explain::{complete, explain};
use super::fact::{Fact, OfService};
use super::farewell::Farewell;
use super::flood::Kind;
use super::fresh::Fresh;
use super::inbox::{Inbox, Input};
use super::orders;
use super::request::{Request, View};
use super::takers::takers;
use api::{PauseOrder, Problem};
use model::{Change, Counters, Instant, Millis, PoolStatus, PoolsNow, Process};
use supervisor::{Command, Event, Step, Supervisor};
use wire::keeper::Order;

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was ordered to stop, and nothing is left.
    Stopped,
    /// The keeper is gone: the processes that it held must be swept.
    KeeperGone,
}

/// Runs until the supervisor is done or the keeper is gone.
pub(super) async fn run(
    mut supervisor: Supervisor,
    mut effects: Effects,
    mut inbox: Inbox,
) -> io::Result<Ended> {
    let (mut asks, mut farewell) = (Asks::default(), Farewell::default());
    loop {
        // First: `carry_out` may meet `Exit`, which waits for the broker only if a stop has its deadline here.
        farewell.look(supervisor.stopping(), effects.stop_deadline, clock::now(), effects.calls.broker());
        carry_out(&mut supervisor, &mut effects, &mut farewell);
        // After the commands: others see what this turn has decided.
        sign(&supervisor, &mut effects);
        effects.mutes.look(clock::now(), &effects.children);
        // Once a turn: all orders reach the keeper in one packet, and wake it once.
        effects.flush()?;
        if effects.is_done() {
            let alive = effects.last.alive.join("; ");
            // `taskvisor stop` reads this event. A file would not do: the disk may be what has failed.
            effects.tellers.event_bus().close(Millis(clock::wall_millis()), effects.last.untold, alive).await;
            // Nothing runs any more, so from here on the loop may wait.
            leave(&effects).await;
            orders::stopped(
                &supervisor.settled(),
                effects.last.untold,
                clock::now().since(effects.record.started),
            )
            .write();
            return Ok(Ended::Stopped);
        }
        let dues =
            [supervisor.poll_timeout(), effects.due(), effects.mutes.due(), farewell.due(clock::now())];
        let deadline = dues.into_iter().flatten().min();
        let mut facts = Vec::new();
        match inbox.next(&mut effects, deadline).await? {
            Input::Event(event) => facts.push(event),
            Input::KeeperMessage(message) => {
                facts = effects.heard(message, &mut asks)?;
                // A template that leaves has said so before a fork of it has failed, but on another way.
                if facts.iter().any(|fact| matches!(fact, Event::SpawnFailed(..))) {
                    facts.splice(0..0, listen(&mut effects)?);
                }
                // An order needs the supervisor, which the effects do not know.
                for (event, by) in std::mem::take(&mut effects.record.by_signal) {
                    signaled(&mut supervisor, &mut effects, event, by);
                }
            }
            Input::Output => facts = listen(&mut effects)?,
            Input::Answer(answer) => effects.children.reply(answer.worker, answer.n, answer.frame),
            Input::Seen(seen) => effects.seen(seen),
            Input::Request(request) => answer(request, &mut supervisor, &mut effects),
            // A worker that has closed its channel gets a while to end, and no descriptor tells when that is over.
            Input::Timeout if effects.children.due().is_some_and(|at| at <= clock::now()) => {
                facts = listen(&mut effects)?;
            }
            Input::Timeout => {}
            Input::KeeperGone => return Ok(Ended::KeeperGone),
        }
        // The supervisor handles all events of one moment together.
        facts.extend(std::iter::from_fn(|| inbox.try_next()));
        facts.extend(effects.size_clock.take(clock::now(), Millis(clock::wall_millis())));
        tell(&mut supervisor, &mut effects, facts);
        notify_idle_waiters(&supervisor, &mut effects);
        // Nothing waits for the broker any more, so what had failed to settle is no trouble now.
        if supervisor.has_told_all() {
            effects.failing.calls.moot(SETTLING, clock::now());
        }
    }
}

/// Answers a request. A request that changes something is answered once the change is made and kept.
fn answer(request: Request, supervisor: &mut Supervisor, effects: &mut Effects) {
    match request {
        Request::View(answer) => drop(answer.send(view(supervisor, effects))),
        Request::Why(asked, answer) => drop(answer.send(explain(supervisor, effects, &asked))),
        Request::Turn(answer) => drop(answer.send(())),
        Request::Stopped { worker, job, fence, answer } => {
            // The supervisor may have stood still with the job: it notes a pause of its own first.
            handle(supervisor, clock::now(), Vec::new());
            _ = answer.send(supervisor.stopped(worker, &job, fence));
        }
        Request::Takers(wanted, answer) => drop(answer.send(takers(supervisor, wanted))),
        Request::AtRest(answer) => effects.waiting_for_rest.push(answer),
        Request::Stop(stop, by) => {
            ordered(supervisor, effects, Event::Stop(stop), (&by, &PauseOrder::default()));
        }
        Request::Change { pool, change, how, by, answer } => {
            let mut now = match refusal(pool.as_deref(), supervisor) {
                Some(problem) => Err(problem),
                None => Ok(changed(supervisor, effects, pool, change, (&by, &how))),
            };
            // The change is kept by another thread, for which the loop cannot wait.
            let kept = effects.changes.take_keeping();
            tokio::spawn(async move {
                if let Some(kept) = kept
                    && let (Ok(_), Ok(Err(why))) = (&now, kept.await)
                {
                    now =
                        Err(Problem::unavailable(format!("the change is made, but ends with a stop: {why}")));
                }
                drop(answer.send(now));
            });
        }
        Request::Reload { fresh, dry_run, by, answer } => {
            drop(answer.send(reload(fresh, (dry_run, &by), supervisor, effects)));
        }
        Request::Log(line) => effects.tellers.log(Kind::Asked, line),
        Request::Counted(counted) => {
            let view = view(supervisor, effects);
            let wall = Millis(clock::wall_millis());
            effects.tellers.course.series.lock().waiting(wall, &counted.counts);
            judge(effects, &view, &counted);
            // `tell` is not used: a count is not a change, and must not cause another count.
            let waiting = super::waiting::waiting(&counted.counts, wall);
            handle(supervisor, clock::now(), vec![Event::Counted(waiting)]);
        }
    }
}

/// Changes a pool, or all pools; gives what holds then.
fn changed(
    supervisor: &mut Supervisor,
    effects: &mut Effects,
    pool: Option<String>,
    change: Change,
    by: (&str, &PauseOrder),
) -> PoolsNow {
    let before = supervisor.pools_now(pool.as_deref());
    ordered(supervisor, effects, Event::Change(pool.clone(), change), by);
    let mut pools = supervisor.pools_now(pool.as_deref());
    for now in &mut pools {
        let was = before.iter().find(|was| was.pool == now.pool);
        now.workers_before = was.map_or(now.workers, |was| was.workers);
    }
    PoolsNow { pools }
}

/// Carries out a person's order.
fn ordered(supervisor: &mut Supervisor, effects: &mut Effects, event: Event, by: (&str, &PauseOrder)) {
    let pools = supervisor.status(clock::now());
    note_order(effects, &event, by, &pools);
    tell(supervisor, effects, vec![event]);
}

/// Carries out the order that a signal stands for.
fn signaled(supervisor: &mut Supervisor, effects: &mut Effects, event: Event, by: &str) {
    let by = (by, &PauseOrder::default());
    if !matches!(event, Event::Change(_, Change::Resume)) {
        return ordered(supervisor, effects, event, by);
    }
    let pools = supervisor.status(clock::now());
    let resumed = effects.changes.authors.of_the_signal(&pools);
    let is_other = |pool: &PoolStatus| pool.paused && !pool.outdated && !resumed.contains(&pool.name);
    // Pools that a person has paused stay so, and one `Change` for all would resume them, too.
    let others = pools.iter().any(is_other);
    if others {
        effects.tellers.log(Kind::Orders, orders::not_resumed());
    } else if !resumed.is_empty() {
        return ordered(supervisor, effects, event, by);
    }
    for pool in resumed {
        ordered(supervisor, effects, Event::Change(Some(pool), Change::Resume), by);
    }
}

fn reload(
    fresh: Result<Fresh, String>,
    (dry_run, by): (bool, &str),
    supervisor: &mut Supervisor,
    effects: &mut Effects,
) -> Vec<(String, Step)> {
    if !dry_run {
        effects.record.settings_trouble = fresh.as_ref().err().cloned();
        effects.record.watch.changed(clock::now());
    }
    let (file, Fresh { mut settings, specs, keep, .. }) = match fresh {
        Ok(fresh) => (fresh.file.clone(), fresh),
        Err(why) => {
            if !dry_run {
                let (why, by) = (why.into(), by.into());
                effects.tell(Fact::Service(OfService::ReloadRefused { why, by }));
            }
            return Vec::new();
        }
    };
    // Before the preview, which compares pools with their specs by number.
    effects.spawn_specs.number(&mut settings, specs, supervisor.specs());
    let wall = Millis(clock::wall_millis());
    // The sizes by the time of day are those of now, so that the preview and the reload agree.
    settings.pools.iter_mut().for_each(|pool| pool.resize_at(wall));
    let steps = supervisor.preview(&settings);
    if !dry_run {
        let (file, steps, by) = (file.map(Into::into), orders::steps(&steps).into(), by.into());
        effects.tell(Fact::Service(OfService::Reloaded { file, steps, by }));
        // Kept in memory, so the loop can wait for it: the next supervisor reads it there.
        effects.failing.reload_kept(keep(), clock::now());
        effects.size_clock.set(&settings.pools, clock::now(), wall);
        effects.calls.set_lease(settings.lease);
        effects.stop_deadline = settings.stop_deadline;
        effects.record.held_degrades = settings.held_degrades;
        // The keeper ends everything by itself if a supervisor that hangs does not even read an order to stop.
        effects.link.order(&Order::StopDeadline(settings.stop_patience()));
        tell(supervisor, effects, vec![Event::Reload(settings)]);
    }
    steps
}

/// Why that pool cannot be changed; None if it can.
fn refusal(pool: Option<&str>, supervisor: &Supervisor) -> Option<Problem> {
    if supervisor.stopping().is_some() {
        return Some(Problem::unavailable("the supervisor is stopping"));
    }
    let pool = pool.filter(|pool| !supervisor.pool_names().any(|name| name == *pool))?;
    let names: Vec<&str> = supervisor.pool_names().collect();
    Some(Problem::not_found(format!("no pool is called '{pool}'; there are: {}", names.join(", "))))
}

/// Carries out every command, also those that follow from events known at once.
fn carry_out(supervisor: &mut Supervisor, effects: &mut Effects, farewell: &mut Farewell) {
    if farewell.take(clock::now(), effects.calls.broker()) {
        effects.perform(Command::Exit);
    }
    loop {
        while let Some(command) = supervisor.next_command() {
            // The broker may still have something to send; `farewell.take` carries out the exit then.
            if command != Command::Exit || farewell.begin(clock::now(), effects.calls.broker()) {
                effects.perform(command);
            }
        }
        let known = effects.take_known();
        if known.is_empty() {
            return;
        }
        tell(supervisor, effects, known);
    }
}

/// Reads the output and the messages of children.
fn listen(effects: &mut Effects) -> io::Result<Vec<Event>> {
    let words = effects.children.turn(clock::now())?;
    Ok(effects.said(words))
}

fn tell(supervisor: &mut Supervisor, effects: &mut Effects, facts: Vec<Event>) {
    let now = clock::now();
    if !facts.is_empty() {
        effects.record.watch.changed(now);
        effects.presence.changed();
    }
    facts.iter().for_each(|event| effects.note(event));
    if supervisor.stopping().is_none() {
        // During a stop a worker may be ended before its hello: that says nothing about its command.
        effects.mutes.hear(now, &facts, &effects.children);
    }
    let lasts =
        facts.iter().any(|event| matches!(event, Event::Change(..) | Event::Resized(..) | Event::Reload(_)));
    handle(supervisor, now, facts);
    // After it was handled: what is kept are the changes in force then.
    if lasts {
        effects.changes.keep(&supervisor.changes());
    }
}

/// Hands events to the supervisor. Whichever come first after a time in which this process did not run end it, so the
/// log says that here.
fn handle(supervisor: &mut Supervisor, now: Instant, events: Vec<Event>) {
    if let Some(stopped) = supervisor.stopped_for(now) {
        orders::stood_still(stopped).write();
    }
    supervisor.handle_all(now, events);
}

/// If no job is here, answers those who wait for that.
fn notify_idle_waiters(supervisor: &Supervisor, effects: &mut Effects) {
    let waiting = &mut effects.waiting_for_rest;
    // Else callers that have hung up would stay in the list while jobs run.
    waiting.retain(|waiting| !waiting.is_closed());
    if !waiting.is_empty() && supervisor.is_at_rest() {
        waiting.drain(..).for_each(|waiting| _ = waiting.send(()));
    }
}

/// Publishes this supervisor's presence, if that is due.
fn sign(supervisor: &Supervisor, effects: &mut Effects) {
    if let Some(sign) = effects.presence.take(clock::now(), effects.calls.instance(), supervisor) {
        effects.calls.broker().sign(sign);
    }
}

/// Deregisters, so that others do not report this supervisor as lost. A broker that does not answer delays the end by a
/// second at most.
async fn leave(effects: &Effects) {
    const PATIENCE: Duration = Duration::from_secs(1);
    if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, effects.calls.broker().leave()).await {
        tracing::debug!(%error, "failed to deregister: other supervisors will report this one as lost");
    }
}

fn view(supervisor: &Supervisor, effects: &Effects) -> View {
    let mut pools = supervisor.status(clock::now());
    effects.spawn_specs.name_users(supervisor.specs(), pools.iter_mut());
    for pool in &mut pools {
        effects.changes.authors.sign(pool);
        pool.time_of_day = effects.size_clock.of(&pool.name, Millis(clock::wall_millis()));
    }
    for slot in pools.iter_mut().flat_map(|pool| pool.template.iter_mut().chain(&mut pool.slots)) {
        let worker = complete(slot, effects);
        // Only the pid; the API looks up the rest when somebody asks.
        slot.process = effects.children.pid(worker).map(|pid| Process { pid, ..Process::default() });
        for job in &mut slot.jobs {
            job.progress = effects.reports.latest(&job.id).cloned();
        }
    }
    View {
        pools,
        settled: supervisor.settled(),
        stopping: supervisor.stopping(),
        held_degrades: effects.record.held_degrades,
        stop_deadline: effects.stop_deadline,
        settings_trouble: effects.record.settings_trouble.clone(),
        keeper: effects.keeper.look(),
        restarts: effects.hello.restarts,
        last_end: effects.hello.last_end(),
        counters: Counters { tallies: supervisor.tallies().clone(), ..effects.tellers.counters() },
        logs: effects.logs.status(),
    }
}
