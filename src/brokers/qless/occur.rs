//! Fires recurring jobs. Each supervisor looks at the due moment and decides which occurrences fire; the script lets
//! the first supervisor fire each. Only the server's clock counts, not those of the hosts.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::sleep;

use super::recurs::Looks;
use super::reply::{array, number, parts, text};
use super::shared::Shared;
use super::{put, recur};
use broker::Error;
use common::recurring::{NET, NOT_PUT, Occurrences, PUT_OFF, WRONG, mended, occurrences, put_by};
use model::{Instant, JobId, Overlap, Recurring, millis_up};

/// Limit of the recurring jobs in one look.
const BATCH: usize = 100;
/// What failed, for the log.
const NOT_LOOKED: &str = "what recurs is not put";
/// Wait after a look that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Fires what is due, for ever.
pub(super) async fn attend(shared: &Shared) {
    loop {
        tokio::select! {
            () = sleep(shared.recurs.wait(shared.link.now())) => come_due(shared).await,
            () = shared.recurs.changed.notified() => {}
        }
    }
}

/// Fires what is due, if it is time to look.
pub(super) async fn come_due(shared: &Shared) {
    let recurs = &shared.recurs;
    let mut looks = recurs.looks.lock().await;
    let now = shared.link.now();
    if !recurs.wait(now).is_zero() {
        return;
    }
    // It also holds if this call is dropped on the way.
    let again = (now + AGAIN).0;
    recurs.at.store(again, Ordering::SeqCst);
    let looked = looks.look(shared).await;
    shared.complaints.note(NOT_LOOKED, &looked, shared.link.now());
    let next = looked.unwrap_or(now + AGAIN);
    // Only if nothing has changed meanwhile.
    let _ = recurs.at.compare_exchange(again, next.0, Ordering::SeqCst, Ordering::SeqCst);
    recurs.changed.notify_one();
}

/// A recurring job that is due.
struct Due {
    name: String,
    version: String,
    recurring: Recurring,
    times: Occurrences,
}

impl Looks {
    /// Fires what is due, and gives the time of the next look: at once, if anything was due.
    async fn look(&mut self, shared: &Shared) -> Result<Instant, Error> {
        let at = shared.link.now();
        let mut now = 0;
        let answer = shared.link.call("look for what recurs in", "taskvisor.recur.due", at, |cmd, offset| {
            now = offset.millis(at).0;
            // Those put off stay due: they must not take the places of others.
            cmd.arg(now).arg(BATCH + self.put_off.len());
        });
        let [later, found] = parts(answer.await?)?;
        self.mend(shared, at, now).await?;
        let again: Vec<(String, (String, i64))> =
            self.put_off.extract_if(|_, (_, until)| *until <= now).collect();
        let due = self.read(shared, array(found)?, now)?;
        let is_any = !due.is_empty();
        if is_any {
            self.have(shared, due, now).await?;
        }
        // What was tried again and is not put off again works, or is removed, paused or put by another supervisor.
        for (name, _) in again.into_iter().filter(|(name, _)| !self.put_off.contains_key(name)) {
            shared.complaints.well_for(NOT_PUT, &name, shared.link.now());
        }
        // One look takes a limited number: more may be due.
        if is_any {
            return Ok(at);
        }
        let later = text(&later).and_then(|later| later.parse().ok());
        let off = self.put_off.values().map(|(_, until)| *until).min();
        let Some(next) = later.into_iter().chain(off).min() else { return Ok(Instant(u64::MAX)) };
        let wait = u64::try_from(next.saturating_sub(now)).unwrap_or(0);
        Ok(at + Duration::from_millis(wait).min(NET))
    }

    /// The recurring jobs that are due, with their occurrences. One that cannot be read does not block the others.
    fn read(&mut self, shared: &Shared, found: Vec<Value>, now: i64) -> Result<Vec<Due>, Error> {
        let mut due = Vec::with_capacity(found.len());
        for one in found {
            let [name, version, next, spec] = parts(one)?;
            let name = text(&name).unwrap_or_default();
            let version = text(&version).unwrap_or_default();
            if self.put_off.get(&name).is_some_and(|(off, _)| *off == version) {
                continue;
            }
            let read = recur::read(&name, &spec)
                .and_then(|recurring| Ok((occurrences(&recurring, number(&next), now)?, recurring)));
            match read {
                Ok((times, recurring)) => due.push(Due { name, version, recurring, times }),
                Err(error) => self.try_later(shared, name, version, now, &error.to_string()),
            }
        }
        Ok(due)
    }

    async fn have(&mut self, shared: &Shared, due: Vec<Due>, now: i64) -> Result<(), Error> {
        let at = shared.link.now();
        let answer = shared.link.call("put what recurs into", "taskvisor.recur.have", at, |cmd, _| {
            cmd.arg(due.len());
            due.iter().for_each(|due| write(cmd, due));
        });
        let answers = array(answer.await?)?;
        for (due, answer) in due.into_iter().zip(answers) {
            let Value::Array(answer) = answer else { continue };
            let [word, why] = parts(Value::Array(answer))?;
            if text(&word).as_deref() == Some("no") {
                self.try_later(shared, due.name, due.version, now, &text(&why).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Defers a job that cannot be put here and now; other supervisors may fire it meanwhile.
    fn try_later(&mut self, shared: &Shared, name: String, version: String, now: i64, why: &str) {
        shared.complaints.wrong_for(NOT_PUT, &name, &format!("'{name}': {why}"), shared.link.now());
        self.put_off.insert(name, (version, now.saturating_add(millis_up(PUT_OFF))));
    }

    /// After the server's clock was far ahead and is right again, corrects the next occurrences that it had moved.
    async fn mend(&mut self, shared: &Shared, at: Instant, now: i64) -> Result<(), Error> {
        let ahead = now - i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        // The first look mends in any case: the clock may have been wrong before this process began.
        if self.ahead.is_some_and(|before| before - ahead < millis_up(WRONG)) {
            self.ahead = Some(ahead);
            return Ok(());
        }
        for one in recur::all(&shared.link).await?.ours {
            let Recurring { name, schedule, .. } = &one.record.recurring;
            let next = one.record.next_at.map(|next| next.0);
            let Ok(Some(right)) = mended(schedule, next, now) else { continue };
            let mended = shared.link.call("mend what recurs in", "taskvisor.recur.mend", at, |cmd, _| {
                cmd.arg(name).arg(&one.version).arg(right);
            });
            mended.await?;
        }
        self.ahead = Some(ahead);
        Ok(())
    }
}

fn write(cmd: &mut Cmd, due: &Due) {
    let Due { name, version, recurring, times } = due;
    let text = |moment: Option<i64>| moment.map_or_else(String::new, |moment| moment.to_string());
    cmd.arg(name).arg(version).arg(text(times.next)).arg(text(times.missed));
    cmd.arg(u8::from(recurring.overlap == Overlap::Skip)).arg(times.wanted.len());
    for at in &times.wanted {
        cmd.arg(*at);
    }
    cmd.arg(put_by(name, None));
    put::write_one(cmd, &recurring.job, &JobId::from(""));
}
