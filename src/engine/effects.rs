//! Carries out commands: each is started here, and an event answers it later. Nothing here decides or awaits.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::warn;

use super::asks::{Asks, Wish};
use super::broker_calls::BrokerCalls;
use super::fact::{Fact, JobAt, OfJob};
use super::failing::Failing;
use super::found::found_event;
use super::fresh::SpawnSpecs;
use super::host::unmade;
use super::lasting::LastingChanges;
use super::logs::Logs;
use super::mutes::Mutes;
use super::presence::PresencePublisher;
use super::record::Record;
use super::reload::Reloader;
use super::reports::Reports;
use super::size_clock::SizeClock;
use super::snapshots::{Seen, Snapshots, is_limit};
use super::systemd::Systemd;
use super::tellers::Tellers;
use super::unborn::Unborn;
use super::unconfirmed::UnconfirmedVerdicts;
use super::worker_calls::WorkerCalls;
use failpoint::failpoint;
use model::{Exit, Fence, Instant, Job, JobId, Limits, Millis, Outcome, PoolSettings, Signal, WorkerId};
use process::usage;
use process::{Children, JobEnd, KeeperMessage, Link, WorkerEvent, oom_kills};
use supervisor::{Command, Event};
use wire::keeper::{Hello, Order, Report};

/// Everything outside the supervisor's decisions.
pub(crate) struct Effects {
    /// The link to and from the keeper.
    pub link: Link,
    /// The living children.
    pub children: Children,
    /// What is written to disk or stderr.
    pub(super) logs: Logs,
    /// The first report of the keeper.
    pub hello: Hello,
    pub(super) keeper: usage::Known,
    /// What is asked of the broker.
    pub(super) calls: BrokerCalls,
    /// What workers ask for.
    pub(super) worker_calls: WorkerCalls,
    pub(super) failing: Failing,
    /// Reports on jobs that wait to be sent to the broker.
    pub(super) reports: Reports,
    /// Snapshots of workers that ended for a limit.
    pub(super) snapshots: Snapshots,
    /// Events known at once, without waiting for an answer.
    pub(super) known: Vec<Event>,
    /// How to make the workers of each pool.
    pub(super) spawn_specs: SpawnSpecs,
    pub(super) reloader: Reloader,
    /// People's changes of pools.
    pub(super) changes: LastingChanges,
    /// Callers that wait until no job is here.
    pub(super) waiting_for_rest: Vec<oneshot::Sender<()>>,
    pub(super) systemd: Systemd,
    pub(super) record: Record,
    pub(super) stop_deadline: Duration,
    /// Publishes this supervisor's presence to all that share the broker.
    pub(super) presence: PresencePublisher,
    /// Those who tell what has happened.
    pub(super) tellers: Tellers,
    pub(super) last: UnconfirmedVerdicts,
    /// Pools whose command may be no worker.
    pub(super) mutes: Mutes,
    /// Resizes pools by the time of day.
    pub(super) size_clock: SizeClock,
    /// Lives that have a program and no process yet.
    pub(super) unborn: Unborn,
    /// The jobs of lives of an earlier supervisor of which a process still lives.
    pub(super) inherited: HashMap<WorkerId, Vec<(Arc<Job>, Fence)>>,
}

impl Effects {
    /// Starts carrying out one command.
    pub(crate) fn perform(&mut self, command: Command) {
        let now = clock::now();
        Fact::of_command(&command, &self.children).into_iter().for_each(|fact| self.tell(fact));
        match command {
            Command::Spawn(worker) => self.link.order(&self.children.beginning(worker)),
            Command::Fork(worker, template) => self.link.order(&Order::Fork(worker, template)),
            Command::Assign { worker, job, fence, limits, retries } => {
                self.tellers.course.begun(&job, now, wall());
                self.reports.begun(&job.id, now, oom_kills);
                self.assign(worker, &job, fence, limits, retries);
            }
            Command::Signal { worker, signal, why } => self.signal(worker, signal, is_limit(&why)),
            Command::Cancel { worker, job, why } => self.children.cancel(worker, &job, why),
            Command::KillAt(worker, at) => self.link.order(&Order::KillAt(worker, at)),
            Command::Follow(worker, follow) => self.link.order(&Order::Follow(worker, follow)),
            Command::Fetch { pool, queues, take, filter, workers } => {
                // Ends of jobs that wait for company go along with the fetch.
                self.send_reports();
                let of = (pool, self.children.pool(pool));
                self.calls.fetch(of, queues, take, filter, workers);
            }
            Command::Renew(leases) => self.calls.renew(leases),
            Command::Settle(settlement) => {
                self.tellers.course.settled(&settlement, now, wall());
                self.reports.settle(settlement, now, oom_kills);
            }
            Command::AskIdle(queues, unknown) => self.calls.ask_idle(queues, unknown),
            Command::GiveUp(why) => self.last.gave_up(why),
            Command::AskWaiting(pool, queues) => self.calls.ask_waiting(pool, queues),
            Command::LeaseLost { job, .. } => {
                self.tellers.course.lost(&job, now, wall());
                self.bury(&job);
            }
            Command::Died { .. } => {} // The fact above is all.
            Command::Equip(pool, settings) => self.equip(pool, &settings),
            Command::VerdictUnconfirmed { job, fence, verdict } => {
                self.last.untold(&self.failing.calls, &job, fence, verdict)
            }
            Command::LeftAlive { worker, cause, jobs } => {
                self.last.left_alive(self.children.name(worker), cause, &jobs)
            }
            Command::Exit => self.link.order(&self.last.shutdown()),
        }
    }

    /// Sends what this turn has collected.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let now = clock::now();
        self.record.watch.look(now);
        self.tellers.look(now);
        let overdue = [self.unborn.overdue(now), self.snapshots.overdue(now)].concat();
        overdue.iter().for_each(|order| self.link.order(order));
        if self.reports.due().is_some_and(|at| at <= clock::now()) {
            self.send_reports();
        }
        // The keeper goes first: so a program gets its bounds as it begins, or a moment later.
        self.link.flush()?;
        self.children.flush();
        Ok(())
    }

    /// When something must be done here that no event announces.
    pub(crate) fn due(&self) -> Option<Instant> {
        let own = [self.reports.due(), self.children.due(), self.record.watch.due(), self.snapshots.due()];
        let others = [self.presence.due(), self.size_clock.due(), self.tellers.due(), self.unborn.due()];
        own.into_iter().chain(others).flatten().min()
    }

    /// Takes the events that came of carrying out commands.
    pub(crate) fn take_known(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.known)
    }

    /// Whether the last command was carried out.
    pub(crate) fn is_done(&self) -> bool {
        self.last.said && self.link.is_flushed()
    }

    /// Updates the records kept here by an event for the supervisor.
    pub(crate) fn note(&mut self, event: &Event) {
        Fact::of_event(event, &self.children).into_iter().for_each(|fact| self.tell(fact));
        if matches!(event, Event::Fetched(_, fetched) if !fetched.is_empty()) {
            failpoint("supervisor-3-fetched");
        }
        if let Event::Settled { job, .. } = event {
            self.bury(job);
        }
        if let Event::Fetched(_, fetched) = event {
            self.tellers.course.fetched(fetched);
        }
    }

    /// Has everybody tell this fact.
    pub(super) fn tell(&mut self, fact: Fact) {
        let words = self.systemd.tell(&fact);
        self.tellers.tell(clock::now(), fact);
        self.notify(words);
    }

    /// Turns a report of the keeper into events.
    pub(crate) fn heard(
        &mut self,
        (report, descriptors): KeeperMessage,
        asks: &mut Asks,
    ) -> io::Result<Vec<Event>> {
        Ok(match report {
            Report::Ping if self.failing.ping() => {
                self.record.watch.changed(clock::now());
                Vec::new()
            }
            Report::Hello(_) | Report::Ping => Vec::new(),
            Report::Bounded(refused) => {
                self.failing.bounded(refused, clock::now());
                Vec::new()
            }
            Report::Left(worker, exit) => self.left(worker, exit, descriptors),
            Report::Started(worker, pid) => match self.children.started(worker, pid, descriptors) {
                // It takes jobs without a first message.
                Ok(true) => vec![Event::Spawned(worker), Event::Ready(worker)],
                Ok(false) => vec![Event::Spawned(worker)],
                Err(error) => {
                    // None of its descriptors is kept, so its messages could not be read.
                    self.link.order(&Order::KillTree(worker));
                    vec![Event::SpawnFailed(worker, error.to_string())]
                }
            },
            Report::Born(worker, pid) => self.unborn.born(worker, pid, &mut self.children),
            Report::SpawnFailed { worker, step, errno } => {
                vec![Event::SpawnFailed(worker, unmade(step, errno))]
            }
            Report::Exited { worker, exit, followed } => self.exited(worker, exit, followed),
            Report::Stuck(worker, pid) => {
                let why = process::unkillable_cause(pid);
                // `why` shows what the process hangs in.
                self.snapshots.look_at(worker, pid);
                vec![Event::Stuck(worker, why)]
            }
            Report::Asked(ask) => match asks.hear(ask) {
                Wish::Tell(event, by) => {
                    self.record.by_signal.push((event, by));
                    Vec::new()
                }
                Wish::Ignore => Vec::new(),
                Wish::Reload => {
                    let words = self.systemd.reloading(clock::monotonic());
                    self.notify(words);
                    self.reloader.on_signal();
                    Vec::new()
                }
                Wish::Reopen => {
                    self.logs.reopen();
                    Vec::new()
                }
            },
        })
    }

    /// The snapshot of a worker has come back: sends the orders that waited for it.
    pub(super) fn seen(&mut self, seen: Seen) {
        let lives = self.children.pid(seen.0).is_some();
        let orders = self.snapshots.take_in(seen, lives);
        orders.iter().for_each(|order| self.link.order(order));
    }

    /// Turns messages of workers into events.
    pub(crate) fn said(&mut self, words: Vec<WorkerEvent>) -> Vec<Event> {
        words.into_iter().filter_map(|word| self.meant(word)).collect()
    }

    fn meant(&mut self, word: WorkerEvent) -> Option<Event> {
        Some(match word {
            WorkerEvent::Ready(worker) => {
                self.mutes.spoke(worker.slot);
                Event::Ready(worker)
            }
            WorkerEvent::Knows(pool, classes) => Event::Knows(pool, classes),
            WorkerEvent::Finished(worker, end) => {
                let (job, fence) = (end.job.id.clone(), end.fence);
                let outcome = self.job_ended(worker, end)?;
                Event::Finished { worker, job, fence, outcome }
            }
            WorkerEvent::Progress { job, fence, progress } => {
                self.reports.progress(job, fence, progress, clock::now());
                return None;
            }
            WorkerEvent::Call { worker, n, verb, args } => {
                let by = format!("worker {}", self.children.name(worker));
                self.worker_calls.grant(worker, by, n, verb, args);
                return None;
            }
            WorkerEvent::Leaving(worker, why) => Event::Leaving(worker, why),
            WorkerEvent::Faulty(worker, why) => Event::Faulty(worker, why),
            WorkerEvent::Found(found) => found_event(found),
            WorkerEvent::Floods(worker, job) => {
                let at = JobAt { job, worker: Some(self.children.name(worker)) };
                self.tell(Fact::Job(at, OfJob::Floods));
                return None;
            }
        })
    }

    fn equip(&mut self, pool: u16, settings: &PoolSettings) {
        self.tellers.add_pool(&settings.name);
        if let Some(plan) = self.spawn_specs.plan(settings) {
            self.children.equip(pool, plan);
        }
    }

    fn exited(&mut self, worker: WorkerId, mut exit: Exit, followed: bool) -> Vec<Event> {
        let remains = self.children.ended(worker, &exit);
        // What earlier jobs have left is not the fault of the last one.
        exit.left_behind = exit.left_behind.saturating_sub(remains.earlier);
        let mut events = self.said(remains.words);
        for end in remains.jobs {
            failpoint("supervisor-8-exit-heard");
            let (job, fence) = (end.job.id.clone(), end.fence);
            let outcome = self.job_ended(worker, end);
            events.extend(outcome.map(|outcome| Event::Finished { worker, job, fence, outcome }));
        }
        self.snapshots.life_ended(worker);
        self.unborn.settled(worker);
        if let Some(last_words) = remains.stillborn {
            self.mutes.stillborn(worker.slot, last_words);
        }
        if self.reports.life_ended(worker) {
            // The keeper keeps an end for the next supervisor until this order. It can wait, so it wakes nobody.
            self.link.order_later(Order::Forget(worker));
        }
        events.push(Event::Exited { worker, exit, followed });
        events
    }

    /// A life of an earlier supervisor is proven dead. If it had one job, its last report is about that job.
    fn left(&mut self, worker: WorkerId, exit: Exit, descriptors: Vec<OwnedFd>) -> Vec<Event> {
        let jobs = self.inherited.remove(&worker).unwrap_or_default();
        if let Ok([(job, fence)]) = <[_; 1]>::try_from(jobs)
            && let Err(error) = self.children.adopt(worker, descriptors, job.clone(), fence)
        {
            warn!(job = %job.id, %error, "the end of a job cannot be read; the job runs again");
        }
        self.exited(worker, exit, false)
    }

    fn signal(&mut self, worker: WorkerId, signal: Signal, for_a_limit: bool) {
        let order = match signal {
            Signal::Term => Order::Terminate(worker),
            Signal::Kill => Order::KillTree(worker),
        };
        let order = match self.children.pid(worker).filter(|_| for_a_limit) {
            Some(pid) => self.snapshots.before(worker, pid, order, clock::now()),
            None => self.snapshots.behind(worker, order),
        };
        order.iter().for_each(|order| self.link.order(order));
    }

    fn assign(&mut self, worker: WorkerId, job: &Arc<Job>, fence: Fence, limits: Limits, retries: u32) {
        failpoint("supervisor-4-before-assign");
        if let Some(bounds) = self.children.bound(worker, &limits).filter(|_| self.hello.bounds) {
            self.link.order(&Order::Bound(worker, bounds));
        }
        let deadline = self.stop_deadline;
        if let Err(unassigned) = self.children.assign(worker, job, fence, limits, retries, deadline) {
            if unassigned.idle_for_ever {
                self.link.order(&Order::KillTree(worker));
            }
            self.known.push(Event::Finished {
                worker,
                job: job.id.clone(),
                fence,
                outcome: unassigned.outcome,
            });
        } else if self.children.is_unborn(worker) {
            self.unborn.sent(worker, clock::now());
        }
        failpoint("supervisor-5-assigned");
    }

    fn send_reports(&mut self) {
        if let Some(batch) = self.reports.take(clock::now()) {
            self.calls.send(batch);
        }
    }

    /// A job is settled or lost. After the last job of a life the keeper can forget that life.
    fn bury(&mut self, job: &JobId) {
        self.calls.ended(job);
        if let Some(worker) = self.reports.bury(job) {
            self.link.order_later(Order::Forget(worker));
        }
    }

    fn job_ended(&mut self, worker: WorkerId, end: JobEnd) -> Option<Outcome> {
        let snapshot = self.snapshots.of(worker).cloned();
        let (outcome, earlier) = self.reports.ended(worker, end, snapshot);
        if let Some(earlier) = earlier {
            self.link.order_later(Order::Forget(earlier));
        }
        outcome
    }

    /// Has the keeper notify systemd, if there is something to say.
    pub(super) fn notify(&mut self, words: Option<String>) {
        if let Some(words) = words {
            self.link.order(&Order::Notify(words));
        }
    }
}

fn wall() -> Millis {
    Millis(clock::wall_millis())
}
