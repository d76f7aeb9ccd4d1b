//! Carrying out commands: each is started here and answered by an event later. Nothing is decided, nothing awaited.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::asks::Asks;
use crate::broker::{Broker, Fetch, Renewal};
use crate::clock;
use crate::failpoint::failpoint;
use crate::model::{
    Fence, Instance, Instant, Job, JobId, JobState, Lease, QueueName, Settlement, Signal, Verdict, WorkerId,
};
use crate::process::{Children, Letter, Link, Logs};
use crate::supervisor::{Command, Event};
use crate::wire::keeper::{Hello, Order, Report};

/// The supervisor's outside world.
pub struct Outside {
    /// To and from the keeper.
    pub link: Link,
    /// The living children.
    pub children: Children,
    /// The writer of job output.
    pub logs: Logs,
    /// What the keeper said first.
    pub hello: Hello,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) events: Sender<Event>,
    pub(super) instance: Instance,
    pub(super) lease: Duration,
    /// Ends that are not settled yet.
    pub(super) ends: HashMap<JobId, End>,
    /// Settlements that wait for the next fetch, to travel with it.
    pub(super) settlements: Vec<Settlement>,
    /// When they go without one.
    pub(super) settle_by: Option<Instant>,
    /// Facts that are known at once.
    pub(super) known: Vec<Event>,
    pub(super) announced: bool,
    pub(super) done: bool,
}

/// The end of a job's process, kept until the broker has it.
pub(super) struct End {
    worker: WorkerId,
    stderr_tail: String,
    output_dropped: u64,
    /// What the disk did not take of its output, known once that is written.
    lost: Arc<AtomicU64>,
    written: Option<oneshot::Receiver<u64>>,
}

/// How long a settlement waits for the fetch that follows it.
const COMPANY: Duration = Duration::from_millis(2);

/// A disk that does not take the output of a job in this time does not hold up its verdict.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

impl Outside {
    /// Starts one effect.
    pub fn perform(&mut self, command: Command) {
        match command {
            Command::Spawn(worker) => self.link.order(&Order::Spawn(worker)),
            Command::Fork(..) | Command::AskWaiting(..) => {}
            Command::Assign(worker, job, fence) => self.assign(worker, &job, fence),
            Command::Signal(worker, signal, why) => {
                info!(%worker, ?signal, why, "signal");
                self.link.order(&match signal {
                    Signal::Term => Order::Terminate(worker),
                    Signal::Kill => Order::KillTree(worker),
                });
            }
            // A coroutine worker is told by a frame; no pool of this version has one.
            Command::Cancel(worker, job, why) => {
                warn!(%worker, %job, ?why, "the worker cannot be told to cancel")
            }
            Command::KillAt(worker, at) => self.link.order(&Order::KillAt(worker, at)),
            Command::Fetch { pool, queues, take, filter, workers } => {
                self.send_settlements();
                let (instance, lease) = (self.instance.clone(), self.lease);
                self.fetch(pool, Fetch { instance, queues, take, filter, workers, lease });
            }
            Command::Renew(leases) => self.renew(leases),
            Command::Settle(settlement) => self.settle(settlement),
            Command::AskIdle(queues) => self.ask_idle(queues),
            Command::Dropped(job, fence, why) => {
                warn!(%job, %fence, why, "lease lost: nothing is settled");
                self.bury(&job);
            }
            Command::Exit => {
                self.link.order(&Order::Shutdown(0));
                self.done = true;
            }
        }
    }

    /// The end of a turn: what was collected goes out.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.settle_by.is_some_and(|at| at <= clock::now()) {
            self.send_settlements();
        }
        self.link.flush()
    }

    /// Facts that came of carrying out commands.
    pub fn take_known(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.known)
    }

    /// Whether the last command was carried out.
    pub fn is_done(&self) -> bool {
        self.done && self.link.is_flushed()
    }

    /// Looks at a fact on its way to the supervisor, for what is kept here.
    pub fn note(&mut self, event: &Event) {
        if matches!(event, Event::Fetched(_, fetched) if !fetched.is_empty()) {
            failpoint("supervisor-3-fetched");
        }
        if let Event::Settled(job, _) = event {
            self.bury(job);
        }
    }

    /// Turns a report of the keeper into facts.
    pub fn heard(&mut self, (report, descriptors): Letter, asks: &mut Asks) -> io::Result<Vec<Event>> {
        Ok(match report {
            Report::Hello(_) | Report::Left(..) => Vec::new(),
            Report::Started(worker, pid) => {
                if let Err(error) = self.children.started(worker, pid, descriptors) {
                    self.link.order(&Order::KillTree(worker));
                    warn!(%worker, %error, "a worker cannot be used");
                    return Ok(vec![Event::SpawnFailed(worker, error.to_string())]);
                }
                self.announce();
                vec![Event::Spawned(worker), Event::Ready(worker)]
            }
            Report::SpawnFailed(worker, step, errno) => {
                let errno = nix::errno::Errno::from_raw(errno);
                let why = format!("failed to {}: {} ({errno:?})", step.as_str(), errno.desc());
                warn!(%worker, why, "no worker could be made");
                vec![Event::SpawnFailed(worker, why)]
            }
            Report::Exited(worker, exit) => self.exited(worker, exit),
            Report::Stuck(worker, pid) => {
                let cause = stuck_cause(pid);
                warn!(%worker, cause, "a killed process does not die");
                vec![Event::Stuck(worker, cause)]
            }
            Report::Asked(ask) => {
                asks.hear(ask).into_iter().map(Event::Stop).inspect(|_| self.stopping()).collect()
            }
        })
    }

    /// A stop was ordered: systemd is told.
    pub fn stopping(&mut self) {
        self.link.order(&Order::Notify("STOPPING=1\nSTATUS=stopping".into()));
    }

    fn exited(&mut self, worker: WorkerId, exit: crate::model::Exit) -> Vec<Event> {
        let remains = self.children.ended(worker, &exit);
        let mut events = Vec::with_capacity(2);
        match remains.job {
            Some((job, fence, outcome)) => {
                failpoint("supervisor-8-exit-heard");
                let end = End {
                    worker,
                    stderr_tail: remains.stderr_tail,
                    output_dropped: remains.output_dropped,
                    lost: Arc::default(),
                    written: remains.written,
                };
                self.ends.insert(job.id.clone(), end);
                events.extend(outcome.map(|outcome| Event::Finished(worker, job.id.clone(), fence, outcome)));
            }
            None => self.link.order_later(Order::Forget(worker)),
        }
        events.push(Event::Exited(worker, exit));
        events
    }

    fn assign(&mut self, worker: WorkerId, job: &Arc<Job>, fence: Fence) {
        failpoint("supervisor-4-before-assign");
        if let Err(outcome) = self.children.assign(worker, job, fence) {
            self.link.order(&Order::KillTree(worker));
            self.known.push(Event::Finished(worker, job.id.clone(), fence, outcome));
        }
        failpoint("supervisor-5-assigned");
    }

    fn fetch(&self, pool: u16, request: Fetch) {
        let (broker, events) = (self.broker.clone(), self.events.clone());
        tokio::spawn(async move {
            let event = match broker.fetch(request).await {
                Ok(fetched) => Event::Fetched(pool, fetched),
                Err(error) => {
                    warn!(%error, "failed to fetch");
                    Event::FetchFailed(pool)
                }
            };
            events.send(event).await.ok();
        });
    }

    fn renew(&self, leases: Vec<Lease>) {
        let (broker, events, by) = (self.broker.clone(), self.events.clone(), self.lease);
        tokio::spawn(async move {
            let asked: Vec<(JobId, Fence)> =
                leases.iter().map(|lease| (lease.job.clone(), lease.fence)).collect();
            let answers: Vec<Event> = match broker.renew(leases, by).await {
                Ok(renewals) => asked.into_iter().zip(renewals).map(renewed).collect(),
                Err(error) => {
                    warn!(%error, "failed to renew");
                    asked.into_iter().map(|(job, fence)| Event::RenewFailed(job, fence)).collect()
                }
            };
            for event in answers {
                events.send(event).await.ok();
            }
        });
    }

    fn settle(&mut self, mut settlement: Settlement) {
        if let (Some(end), Some(forensics)) = (self.ends.get(&settlement.job), &mut settlement.forensics) {
            forensics.stderr_tail.clone_from(&end.stderr_tail);
            forensics.output_dropped = end.output_dropped + end.lost.load(Ordering::Relaxed);
        }
        // A person waits for a cancel; the others gain from one transaction for the last job's end and the next one's start.
        let wait = match settlement.verdict {
            Verdict::Canceled => Duration::ZERO,
            Verdict::Complete { .. }
            | Verdict::Retry { .. }
            | Verdict::Fail { .. }
            | Verdict::Release { .. }
            | Verdict::Hold { .. } => COMPANY,
        };
        let by = clock::now() + wait;
        self.settle_by = Some(self.settle_by.map_or(by, |earlier| earlier.min(by)));
        self.settlements.push(settlement);
    }

    fn send_settlements(&mut self) {
        if self.settlements.is_empty() {
            return;
        }
        failpoint("supervisor-9-before-settle");
        self.settle_by = None;
        let mut settlements = std::mem::take(&mut self.settlements);
        let (broker, events) = (self.broker.clone(), self.events.clone());
        let written: Vec<_> = settlements
            .iter()
            .map(|one| {
                let end = self.ends.get_mut(&one.job)?;
                Some((end.written.take()?, end.lost.clone()))
            })
            .collect();
        tokio::spawn(async move {
            // Whoever hears that a job has ended can read all it printed.
            for (written, settlement) in written.into_iter().zip(&mut settlements) {
                let Some((written, lost)) = written else { continue };
                let answer = tokio::time::timeout(LOG_PATIENCE, written).await;
                if let (Ok(Ok(bytes)), Some(forensics)) = (answer, &mut settlement.forensics) {
                    forensics.output_dropped += bytes;
                    lost.store(bytes, Ordering::Relaxed);
                }
            }
            let asked: Vec<(JobId, Fence)> =
                settlements.iter().map(|one| (one.job.clone(), one.fence)).collect();
            let result = broker.settle(settlements).await;
            if let Err(error) = &result {
                warn!(%error, "failed to settle");
            }
            for (job, fence) in asked {
                let event = match &result {
                    Ok(_) => Event::Settled(job, fence),
                    Err(_) => Event::SettleFailed(job, fence),
                };
                events.send(event).await.ok();
            }
        });
    }

    fn ask_idle(&self, queues: Vec<QueueName>) {
        let (broker, events) = (self.broker.clone(), self.events.clone());
        tokio::spawn(async move {
            let Ok(counts) = broker.counts().await else { return };
            // What waits in a paused queue waits for a person.
            let open: u64 = queues
                .iter()
                .filter_map(|queue| counts.get(queue))
                .filter(|counts| counts.paused.is_none() || counts.jobs.contains_key(&JobState::Running))
                .flat_map(|counts| &counts.jobs)
                .filter(|(state, _)| !JobState::has_ended(**state))
                .map(|(_, count)| count)
                .sum();
            if open == 0 {
                events.send(Event::Idle).await.ok();
            }
        });
    }

    /// The end of a job is settled or lost: the keeper need not remember it for a next supervisor.
    fn bury(&mut self, job: &JobId) {
        if let Some(end) = self.ends.remove(job) {
            self.link.order_later(Order::Forget(end.worker));
        }
    }

    /// The first worker is there: the service is up.
    fn announce(&mut self) {
        if !std::mem::replace(&mut self.announced, true) {
            self.link.order(&Order::Notify("READY=1\nSTATUS=serving".into()));
        }
    }
}

fn renewed(((job, fence), renewal): ((JobId, Fence), Renewal)) -> Event {
    match renewal {
        Renewal::Renewed(lease) => Event::Renewed(lease),
        Renewal::Lost(why) => Event::Revoked(job, fence, why),
    }
}

/// Why a killed process may still be there, as far as /proc tells.
fn stuck_cause(pid: i32) -> String {
    let state = crate::process::usage::process(pid).map_or("?".into(), |process| process.state);
    let place = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    match place.as_str() {
        "" | "0" => format!("process {pid} is in state {state} and does not die"),
        place => format!("process {pid} is in state {state} (waits in {place}) and does not die"),
    }
}
