//! Dead letters go back to their queues. Each is sent first and deleted then: in between it exists twice, and it is never
//! lost. The ledger knows what was sent, so that a deletion that fails makes no second job of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::client::{JOB, Message, Outgoing};
use super::fault::Fault;
use super::queue::Queue;
use super::shared::{NOTED_MAX, Shared};
use super::source::{Sqs, all};
use broker::Error;
use model::verb::{Act, Bulk, Queues, Retry, Swept, VerbRequest};
use model::{JobId, JobState, Millis, QueueName};
use select::terms::MOST;

/// Number of dead letters to look at in one call, at least; and most ids in an answer.
const STRETCH: usize = 200;
const SHOWN: usize = 10;
/// How long a receive waits: without a wait SQS may overlook some.
const WAIT: Duration = Duration::from_secs(1);
/// How long a dead letter is hidden while it moves, or if it stays: else it would be received again at once.
const HIDDEN: Duration = Duration::from_secs(120);

/// Where a sweep goes on: the place of the queue, and when it began. What is sent to the dead letters later stays there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    at: usize,
    began: Millis,
}

impl Cursor {
    /// More queues than any host has.
    const QUEUES: i64 = 1 << 16;

    fn of(after: Option<i64>, now: Millis) -> Cursor {
        let Some(after) = after else { return Cursor { at: 0, began: now } };
        let at = usize::try_from(after.rem_euclid(Cursor::QUEUES)).unwrap_or(0);
        Cursor { at, began: Millis(after.div_euclid(Cursor::QUEUES)) }
    }

    fn after(self) -> i64 {
        self.began.0 * Cursor::QUEUES + i64::try_from(self.at).unwrap_or(0)
    }
}

/// What became of a dead letter.
enum Moved {
    /// It waits in its queue again, as this job.
    Job(JobId),
    /// It had been sent before, and is deleted now.
    Before,
    /// It came after the sweep began.
    Later,
    /// The message is no job.
    Unread,
}

impl Sqs {
    /// Puts the dead letters of queues back, or removes ended jobs from the ledger.
    pub(super) async fn sweep(&self, asked: Bulk, by: String) -> Result<Swept, Error> {
        if asked.act == Act::Discard {
            return Ok(Bulk::answer(self.shared.ledger.ask(asked.verb(), by).await?).unwrap_or_default());
        }
        if let Some(why) = fault(&asked) {
            return Err(Error::Refused(why));
        }
        let queues = self.dead_letter_queues(&asked).await?;
        let mut swept = Swept::default();
        let mut cursor = Cursor::of(asked.after, clock::wall());
        let most = usize::try_from(asked.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let (mut looked, mut moved_here) = (0, 0);
        while let Some((queue, dead)) = queues.get(cursor.at) {
            let left = most.saturating_sub(usize::try_from(swept.count).unwrap_or(usize::MAX));
            if left == 0 {
                return Ok(swept);
            }
            let failed = |fault: Fault| dead.error("read the dead letters of", &fault);
            if asked.dry_run {
                let [waiting, ..] = self.shared.client.counts(&dead.name).await.map_err(failed)?;
                note(&mut swept, dead, waiting.min(left as u64));
                cursor.at += 1;
                continue;
            }
            if looked >= STRETCH {
                // Those that stay are hidden for a while, and come again: then a stretch of nothing else ends a queue.
                let seen_again = i128::from(clock::wall().0 - cursor.began.0) > HIDDEN.as_millis() as i128;
                let is_over = moved_here == 0 && seen_again;
                cursor.at += usize::from(is_over);
                swept.next = Some(cursor.after()).filter(|_| cursor.at < queues.len());
                return Ok(swept);
            }
            let received = self.shared.client.receive(&dead.name, MOST.min(left), HIDDEN, WAIT).await;
            let letters = received.map_err(failed)?;
            if letters.is_empty() {
                // The wait for nothing takes as long as many letters do.
                looked += MOST;
                // The next queue is over only once a stretch of its own has moved nothing.
                (cursor.at, moved_here) = (cursor.at + 1, 1);
                continue;
            }
            looked += letters.len();
            let moved = letters.into_iter().map(|letter| {
                let (shared, queue, dead) = (self.shared.clone(), queue.clone(), dead.clone());
                let by = by.clone();
                async move { move_back(&shared, &queue, &dead, letter, cursor.began, by).await }
            });
            moved_here += tell(&mut swept, dead, all(moved).await.into_iter().map(Result::flatten))?;
        }
        Ok(swept)
    }

    /// The queues with their dead-letter queues, as far as these are there: of the queue that is asked for, else of all
    /// that this host knows.
    async fn dead_letter_queues(&self, asked: &Bulk) -> Result<Vec<(QueueName, Arc<Queue>)>, Error> {
        let place = &self.shared.client.place;
        let names: BTreeSet<QueueName> = match &asked.queue {
            Some(queue) => [queue.clone()].into(),
            None => {
                let known = self.shared.ledger.ask(Queues {}.verb(), String::new()).await?;
                let known = Queues::answer(known).unwrap_or_default().into_keys();
                known.chain(self.shared.sources().iter().map(|source| source.name.clone())).collect()
            }
        };
        let mut queues = Vec::new();
        for name in names {
            let Some(dead) = place.dead_letters(name.as_str()) else {
                let why =
                    "the broker's URL says dead=no: failed messages are deleted, and none can be retried";
                return Err(Error::Refused(why.into()));
            };
            let dead = self.shared.queue(&dead);
            let is_there = self.shared.client.is_there(&dead.name).await;
            if is_there.map_err(|fault| dead.error("find", &fault))? {
                queues.push((name, dead));
            } else if asked.queue.is_some() {
                return Err(Error::Refused(format!(
                    "queue '{name}' has no dead letters: there is no SQS queue '{}'",
                    dead.name
                )));
            }
        }
        Ok(queues)
    }
}

/// Why dead letters cannot be chosen like this.
fn fault(asked: &Bulk) -> Option<String> {
    let is_chosen = asked.group.is_some() || asked.class.is_some() || asked.since.is_some();
    match asked.state {
        _ if asked.fault().is_some() => asked.fault(),
        JobState::Failed if is_chosen => Some(
            "SQS cannot choose among dead letters: leave the group, the class and the time out; a queue and a limit will do"
                .into(),
        ),
        JobState::Failed => None,
        JobState::Held => {
            Some("held jobs are dead letters as failed ones are: retry those that have failed, which moves both".into())
        }
        state @ (JobState::Waiting
        | JobState::Delayed
        | JobState::Depends
        | JobState::Running
        | JobState::Canceling
        | JobState::Complete
        | JobState::Canceled) => {
            Some(format!("SQS keeps no message of a job that is {state}: put it again"))
        }
    }
}

fn note(swept: &mut Swept, dead: &Queue, count: u64) {
    swept.count += count;
    if count > 0 && !swept.from.contains(&dead.name) {
        swept.from.push(dead.name.clone());
    }
}

/// Counts what became of dead letters. Gives how many were moved. If some were moved before, it logs an error in place of
/// returning it, so that the answer still names them.
fn tell(
    swept: &mut Swept,
    dead: &Queue,
    letters: impl Iterator<Item = Result<Moved, Error>>,
) -> Result<usize, Error> {
    let (mut moved, mut failed) = (0, None);
    for letter in letters {
        match letter {
            Ok(Moved::Job(job)) => {
                moved += 1;
                note(swept, dead, 1);
                swept.jobs.extend(Some(job).filter(|_| swept.jobs.len() < SHOWN));
            }
            Ok(Moved::Unread) => swept.unread += 1,
            Ok(Moved::Before | Moved::Later) => {}
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if swept.count == 0 => return Err(error),
        Some(error) => tracing::warn!(queue = dead.name, %error, "dead letters stay that could not be moved"),
        None => {}
    }
    Ok(moved)
}

/// Moves a dead letter back to its queue, with its counters cleared. A job keeps its id.
async fn move_back(
    shared: &Arc<Shared>,
    queue: &QueueName,
    dead: &Queue,
    letter: Message,
    began: Millis,
    by: String,
) -> Result<Moved, Error> {
    let failed = |fault: Fault| dead.error("delete a dead letter of", &fault);
    if shared.ledger.has_ended(letter.id.clone()).await {
        return dead.delete(&letter.handle).await.map(|_| Moved::Before).map_err(failed);
    }
    if letter.sent.is_some_and(|sent| sent >= began) {
        return Ok(Moved::Later);
    }
    if shared.bodies.read(queue, &letter).is_err() {
        return Ok(Moved::Unread);
    }
    let (target, body) = (shared.queue_of(queue), shared.bodies.afresh(&letter.body, clock::wall()));
    let once = format!("retry-{}", letter.id);
    let message = target.message(body, letter.group.clone(), Duration::ZERO, &once);
    shared.was_buried(letter.job.as_str().into(), dead).await;
    // AWS moves a message without the attribute. It is the same job all the same: the new message has another id.
    let is_named = letter.job != letter.id || message.body.len() <= NOTED_MAX;
    let notes = is_named.then(|| (JOB, letter.job.clone())).into_iter().collect();
    let sent = target.send(&Outgoing { notes, ..message }).await;
    let id = sent.map_err(|fault| target.error("put a dead letter back into", &fault))?;
    shared.forget_count(queue);
    let job: JobId = if is_named { letter.job.as_str().into() } else { id.as_str().into() };
    // It may run already, or have run: then the ledger has heard of it.
    if matches!(shared.ledger.state(&job).await, Ok(Some(JobState::Failed | JobState::Held))) {
        shared.ledger.ask(Retry { job: job.clone() }.verb(), by).await.ok();
    }
    // Before the deletion: if that fails, the letter is not moved a second time.
    shared.ledger.discarded(letter.id.clone(), job.clone()).await;
    dead.delete(&letter.handle).await.map_err(failed)?;
    Ok(Moved::Job(job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_survives_an_answer() {
        let now = Millis(1_795_212_000_123);
        assert_eq!(Cursor::of(None, now), Cursor { at: 0, began: now });
        let cursor = Cursor { at: 700, began: now };
        assert_eq!(Cursor::of(Some(cursor.after()), Millis(0)), cursor);
    }
}
