//! A source of jobs that keeps no history, and the broker that it makes with a ledger.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Adopted, Delivery, Elsewhere, Handle, Ledger};
use broker::{
    Admin, Broker, Card, Complaints, Error, Fetch, Health, Notice, Peers, Recovery, Renewal, Settling, Source,
};
use model::verb::{Answer, Verb};
use model::{
    Count, Fence, Fetched, Instance, JobId, JobState, Lease, Millis, NewJob, Next, Presence, Progress,
    QueueName, Settlement, Verdict, WorkerId,
};

/// A source of jobs that keeps no history: it alone decides who may run a job, and its ledger records that. What is not
/// explained here is as in [`Source`].
#[async_trait]
pub trait BareSource: Send + Sync + 'static {
    /// The ledger with the history of its jobs.
    fn ledger(&self) -> &Ledger;

    /// Takes at most one job for each worker of the request, in the order of the workers.
    async fn take(&self, request: &Fetch) -> Result<Vec<Delivery>, Error>;

    /// What the ledger has answered for a delivery. The job runs only for [`Adopted::Runs`].
    fn adopted(&self, _lease: &Lease, _answer: &Adopted) {}

    /// Extends leases, each to `by` from now.
    async fn renew(&self, leases: &[Lease], by: Duration) -> Result<Vec<Renewal>, Error>;

    /// Why no complete job can go on there; None = it can.
    fn refuses(&self, next: &Next) -> Option<String>;

    /// Applies verdicts, and records in the ledger which ones were applied.
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error>;

    /// Puts jobs and gives their ids.
    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error>;

    /// Holds the jobs that an earlier supervisor held, as far as their leases last.
    fn take_over(&self, _held: &[Handle]) {}

    /// Releases what `instance` held when it died, apart from `keep`. `lost` is what the ledger knows of that. Gives
    /// the number released.
    async fn release(
        &self,
        instance: &Instance,
        lost: Vec<Handle>,
        keep: &[(JobId, Fence)],
    ) -> Result<u64, Error>;

    /// Carries out a verb, as far as the ledger can.
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        self.ledger().ask(verb, by).await
    }

    /// Its queues with what waits there.
    async fn waiting(&self) -> Result<Vec<WaitingJobs>, Error> {
        Ok(Vec::new())
    }

    /// Asks the broker how these jobs ended, at another host or in the broker itself. None = not ended, or not known.
    async fn elsewhere(&self, jobs: &[JobId]) -> Result<Vec<Option<Elsewhere>>, Error> {
        Ok(vec![None; jobs.len()])
    }

    /// Waits for the next notice.
    async fn next_notice(&self) -> Notice {
        self.ledger().next_notice().await
    }

    /// The operations that concern other supervisors of the same broker; None = it has none.
    fn peers(&self) -> Option<&dyn Peers> {
        None
    }

    /// Whether it works; the ledger adds what it knows of itself.
    fn health(&self) -> Health {
        Health::default()
    }
}

/// The jobs that wait in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingJobs {
    /// The name of the queue.
    pub queue: QueueName,
    /// Number of waiting jobs, if known.
    pub count: Option<u64>,
    /// When the oldest was put, if that is known.
    pub since: Option<Millis>,
}

/// The broker that a source makes with its ledger.
pub fn with_ledger(card: &'static Card, source: Arc<impl BareSource>) -> Broker {
    let (store, whole) = (source.ledger().store(), Arc::new(WithLedger(source)));
    let broker = Broker::new(card, whole.clone()).with_recovery(whole.clone()).with_admin(whole.clone());
    broker.with_peers(whole).with_store(store)
}

struct WithLedger<S>(Arc<S>);

/// As what the end of a lease counts whose broker does not take the verdict.
fn counts(verdict: &Verdict) -> Count {
    if let Verdict::Release { counts: Some(counts), .. } = verdict { *counts } else { Count::Stopped }
}

/// How long a question about a job waits for the broker to say whether it has ended elsewhere.
const LOOK: Duration = Duration::from_secs(1);

impl<S: BareSource> WithLedger<S> {
    /// Asks the broker about a job that the ledger has as waiting, and records its end if it has ended.
    async fn look(&self, job: &JobId) -> Result<(), Error> {
        let state = self.0.ledger().state(job).await?;
        if !matches!(state, Some(JobState::Waiting | JobState::Delayed)) {
            return Ok(());
        }
        // Without an answer the ledger's state stands.
        let asked = tokio::time::timeout(LOOK, self.0.elsewhere(std::slice::from_ref(job))).await;
        let found = asked.ok().and_then(Result::ok).unwrap_or_default();
        let ended = found.into_iter().flatten().map(|how| (job.clone(), how));
        self.0.ledger().learn(ended.collect()).await;
        Ok(())
    }
}

#[async_trait]
impl<S: BareSource> Source for WithLedger<S> {
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        let given = self.0.take(&request).await?;
        let leases: Vec<Lease> = given.iter().map(|delivery| delivery.lease.clone()).collect();
        let given = given.into_iter().zip(request.workers.iter().copied()).collect();
        let adopted = self.0.ledger().adopt(&request, given).await;
        let runs = adopted.into_iter().zip(leases).filter_map(|(answer, lease)| {
            self.0.adopted(&lease, &answer);
            match answer {
                Adopted::Runs(fetched) => Some(Fetched { lease, ..fetched }),
                Adopted::Ended | Adopted::Held(_) => None,
            }
        });
        Ok(runs.collect())
    }

    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        let renewals = self.0.renew(&leases, by).await?;
        // One that the broker refused is no renewal.
        let renewed: Vec<Lease> = renewals
            .iter()
            .filter_map(|renewal| match renewal {
                Renewal::Renewed(lease) | Renewal::Canceling(lease) => Some(lease.clone()),
                Renewal::Lost(_) | Renewal::Failed(_) => None,
            })
            .collect();
        let mut noted = self.0.ledger().renew(renewed, by).await.into_iter();
        let answers = leases.iter().zip(&renewals);
        let lost = answers.filter(|(_, renewal)| matches!(renewal, Renewal::Lost(_)));
        let lost = lost.map(|(lease, _)| (lease.job.clone(), lease.fence, Count::Stopped));
        self.0.ledger().lost(lost.collect()).await;
        let in_force = |renewal| match renewal {
            Renewal::Renewed(lease) => match noted.next().flatten() {
                // A person has canceled it here.
                Some(Renewal::Canceling(_)) => Renewal::Canceling(lease),
                Some(Renewal::Renewed(_) | Renewal::Lost(_) | Renewal::Failed(_)) | None => {
                    Renewal::Renewed(lease)
                }
            },
            Renewal::Canceling(_) => {
                // The ledger was asked about this lease too: the answer belongs to no other one.
                noted.next();
                renewal
            }
            Renewal::Lost(_) | Renewal::Failed(_) => renewal,
        };
        Ok(renewals.into_iter().map(in_force).collect())
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let possible = |settlement: Settlement| {
            let Verdict::Complete { next: Some(next), .. } = &settlement.verdict else { return settlement };
            let Some(why) = self.0.refuses(next) else { return settlement };
            let failure = next.refused(&why);
            Settlement { verdict: Verdict::Hold { failure }, ..settlement }
        };
        let in_force = self.0.ledger().in_force(settlements).await;
        let ends: Vec<Settlement> = in_force.into_iter().map(possible).collect();
        let named: Vec<_> =
            ends.iter().map(|end| (end.job.clone(), end.fence, counts(&end.verdict))).collect();
        let answers = self.0.settle(ends).await?;
        let lost = named.into_iter().zip(&answers).filter(|(_, answer)| **answer == Settling::NotOurs);
        self.0.ledger().lost(lost.map(|(named, _)| named).collect()).await;
        Ok(answers)
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        self.0.put(jobs).await
    }

    async fn next_notice(&self) -> Notice {
        self.0.next_notice().await
    }

    fn complaints(&self) -> Complaints {
        self.0.ledger().complaints()
    }

    fn health(&self) -> Health {
        let (own, ledger) = (self.0.health(), self.0.ledger());
        Health { trouble: own.trouble, concern: ledger.concern().or(own.concern), ..ledger.health() }
    }

    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        self.0.ledger().progress(notes).await;
        Ok(())
    }
}

#[async_trait]
impl<S: BareSource> Peers for WithLedger<S> {
    fn sign(&self, sign: Presence) {
        if let Some(peers) = self.0.peers() {
            peers.sign(sign);
        }
    }

    async fn leave(&self) -> Result<(), Error> {
        let left = async {
            match self.0.peers() {
                Some(peers) => peers.leave().await,
                None => Ok(()),
            }
        };
        // Side by side: a broker that does not answer must not cost the history, too.
        tokio::join!(left, self.0.ledger().close()).0
    }

    fn stopping(&self) {
        if let Some(peers) = self.0.peers() {
            peers.stopping();
        }
    }

    fn is_rested(&self) -> bool {
        self.0.peers().is_none_or(Peers::is_rested)
    }
}

#[async_trait]
impl<S: BareSource> Recovery for WithLedger<S> {
    async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) -> Result<u64, Error> {
        let mut lost = self.0.ledger().held(&instance).await;
        self.0.take_over(&lost);
        lost.retain(|one| !keep.contains(&(one.job.clone(), one.fence)));
        // The ledger comes last: if the broker fails, it still knows what was held.
        let released = self.0.release(&instance, lost, &keep).await?;
        self.0.ledger().recover(instance, keep).await;
        Ok(released)
    }

    async fn held_by(&self, instance: Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Error> {
        self.0.take_over(&self.0.ledger().held(&instance).await);
        self.0.ledger().store().held_by(instance).await
    }
}

#[async_trait]
impl<S: BareSource> Admin for WithLedger<S> {
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        if let Verb::Get(it) = &verb {
            self.look(&it.job).await?;
        }
        let mut answer = self.0.ask(verb, by).await?;
        if let Answer::Queues(queues) = &mut answer {
            for WaitingJobs { queue, count, since } in self.0.waiting().await? {
                let counts = queues.entry(queue).or_default();
                counts.jobs.extend(count.map(|count| (JobState::Waiting, count)));
                counts.jobs.retain(|_, count| *count > 0);
                if counts.jobs.contains_key(&JobState::Waiting) {
                    counts.oldest_waiting = counts.oldest_waiting.into_iter().chain(since).min();
                }
            }
        }
        Ok(answer)
    }
}
