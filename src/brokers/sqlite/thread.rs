//! The store's thread: takes the waiting requests, applies them in one transaction, and passes on those that must be on
//! disk first.

use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::ErrorCode;

use super::call::{Call, Kind};
use super::checkpoint::Checkpoints;
use super::expiry::Look;
use super::heard::look_around;
use super::lease;
use super::message::Message;
use super::notify_file::Bell;
use super::place::Place;
use super::store::Store;
use super::syncer::{Load, Order};
use super::trouble::{Trouble, explain};
use broker::{Error, EventBus, Notice};
use failpoint::failpoint;
use model::{Instant, QueueSet};

/// Limit of the calls in one transaction.
const BATCH_MAX: usize = 256;
/// Requests that are not urgent share a sync, or a transaction, with those that come within this time.
const COMPANY: Duration = Duration::from_millis(5);
/// Pause after a timer's work has failed.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Room {
    pub(super) store: Store,
    pub(super) inbox: Receiver<Message>,
    pub(super) file: String,
    /// The state that only a store on disk has.
    pub(super) disk: Option<Disk>,
    pub(super) broken: Option<Broken>,
    /// No timer fires before this moment.
    pub(super) quiet_until: Instant,
}

pub(super) struct Disk {
    pub(super) wal: PathBuf,
    pub(super) place: Place,
    pub(super) bell: Bell,
    pub(super) orders: Sender<Order>,
    pub(super) syncer: JoinHandle<()>,
    pub(super) checkpoints: Checkpoints,
    /// Committed work that waits, to go to the syncer together with what comes soon: one wake-up for all.
    pub(super) held: Load,
    /// When the syncer last got any work.
    pub(super) handed: Instant,
}

/// The disk failed, or the files are gone.
pub(super) struct Broken {
    reason: String,
    retry_at: Instant,
    wait: Duration,
}

#[derive(Default)]
struct Turn {
    calls: Vec<Box<dyn Call>>,
    /// Whether a caller waits urgently for one of the calls.
    urgent: bool,
    timer: bool,
    bell: bool,
    stop: bool,
}

impl Room {
    pub(super) fn run(mut self) {
        loop {
            let turn = self.collect();
            let stop = turn.stop;
            self.take(turn);
            self.hand_over(stop);
            if stop {
                break;
            }
            self.expire();
            self.mend();
            if self.broken.is_none()
                && let Some(disk) = &mut self.disk
            {
                disk.checkpoints.run(&self.store);
            }
        }
        self.close();
    }

    /// Waits for a message or for the next due work, then takes all waiting messages.
    fn collect(&mut self) -> Turn {
        let mut turn = Turn::default();
        let first = match self.wait() {
            Some(wait) => self.inbox.recv_timeout(wait),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match first {
            Ok(message) => self.sort(message, &mut turn),
            Err(RecvTimeoutError::Timeout) => turn.timer = self.is_due(),
            Err(RecvTimeoutError::Disconnected) => turn.stop = true,
        }
        let company = clock::now() + COMPANY;
        while turn.calls.len() < BATCH_MAX && !turn.stop {
            let may_wait = !turn.urgent && !turn.calls.is_empty();
            let patience = if may_wait { company.since(clock::now()) } else { Duration::ZERO };
            let Ok(message) = self.inbox.recv_timeout(patience) else { break };
            self.sort(message, &mut turn);
        }
        turn
    }

    /// The time until something is due by itself; `None` = nothing is. While the disk fails that is the next try to
    /// repair it, whatever else is due: that would be refused, and due again at once.
    fn wait(&self) -> Option<Duration> {
        let next = match &self.broken {
            Some(broken) => Some(broken.retry_at.since(clock::now())),
            None => {
                let timer = self.store.next_timer();
                let timer = timer.map(|due| self.until(due).max(self.quiet_until.since(clock::now())));
                let checkpoint = self.disk.as_ref().and_then(|disk| disk.checkpoints.retry_at());
                timer.into_iter().chain(checkpoint.map(|at| self.until(at))).min()
            }
        };
        let held = self.disk.as_ref().filter(|disk| !disk.held.is_empty());
        let sync = held.map(|disk| (disk.handed + COMPANY).since(clock::now()));
        [next, sync].into_iter().flatten().min()
    }

    /// The time until a moment of store time.
    fn until(&self, moment: i64) -> Duration {
        let wait = moment.saturating_sub(self.store.time());
        Duration::from_millis(u64::try_from(wait).unwrap_or(0))
    }

    /// Whether timers do not run at the moment.
    fn is_quiet(&self) -> bool {
        self.broken.is_some() || clock::now() < self.quiet_until
    }

    /// Whether something in the store is due.
    fn is_due(&self) -> bool {
        !self.is_quiet() && self.store.is_due(self.store.time())
    }

    fn sort(&mut self, message: Message, turn: &mut Turn) {
        match message {
            Message::Call(call) => match self.refusal(call.kind()) {
                Some(refusal) => call.answer(Err(refusal)),
                None => {
                    turn.urgent |= call.kind() != Kind::Note;
                    turn.calls.push(call);
                }
            },
            Message::Bell => {
                turn.bell = true;
                self.look_for_files();
            }
            Message::Broken(reason) => self.broke(reason),
            Message::Stop => turn.stop = true,
        }
    }

    /// The error for a call while the disk fails: nothing is durable then, and no new job is handed out.
    fn refusal(&self, kind: Kind) -> Option<Error> {
        let broken = self.broken.as_ref()?;
        (kind.is_durable() || kind == Kind::Fetch).then(|| Error::Failed(broken.reason.clone()))
    }

    /// Carries out the calls of a turn in one transaction, and answers them.
    fn take(&mut self, turn: Turn) {
        let mut calls = turn.calls;
        if calls.is_empty() && !turn.timer && !turn.bell {
            return;
        }
        if calls.iter().any(|call| call.kind().writes()) {
            self.store.expiry.stir(self.store.time());
        }
        match self.transact(&mut calls, turn.timer, turn.bell) {
            Ok(()) => self.deliver(calls),
            // Each call alone, so that one that does not fit does not undo the others. A locked file blocks all of
            // them, and has been waited for long enough.
            Err(error) if calls.len() > 1 && !is_locked(&error) => {
                calls.into_iter().for_each(|call| self.take_alone(call))
            }
            Err(error) => self.failed(calls, &error),
        }
    }

    /// Removes some of the jobs that were kept long enough. This is apart from calls, so that no caller gets an error
    /// about a row that cannot be removed.
    fn expire(&mut self) {
        let time = self.store.time();
        if !self.is_quiet() && self.store.expiry.begin(time) {
            self.look_for_files();
            self.take_alone(Box::new(Look));
        }
    }

    fn take_alone(&mut self, call: Box<dyn Call>) {
        let mut calls = vec![call];
        match self.transact(&mut calls, false, false) {
            Ok(()) => self.deliver(calls),
            Err(error) => self.failed(calls, &error),
        }
    }

    fn failed(&mut self, calls: Vec<Box<dyn Call>>, error: &rusqlite::Error) {
        self.quiet_until = clock::now() + PAUSE;
        let keeps = calls.iter().any(|call| matches!(call.kind(), Kind::Lease | Kind::Settle));
        if is_of_the_disk(error) && (calls.is_empty() || keeps) {
            self.store.refused_at = Some(self.store.time());
        }
        // One call was too large: that says nothing about the store.
        if error.sqlite_error_code() != Some(ErrorCode::TooBig) {
            let verb = if calls.iter().all(|call| !call.kind().writes()) { "read" } else { "write to" };
            self.store.notices.set_trouble(Some(explain(verb, &self.file, error).to_string()));
        }
        for call in calls {
            let verb = if call.kind().writes() { "write to" } else { "read" };
            call.answer(Err(explain(verb, &self.file, error)));
        }
    }

    fn transact(
        &mut self,
        calls: &mut [Box<dyn Call>],
        timer: bool,
        bell: bool,
    ) -> Result<(), rusqlite::Error> {
        let writes = timer || calls.iter().any(|call| call.kind().writes());
        let outcome = self.apply(calls, writes, bell);
        if outcome.is_err() {
            self.store.roll_back();
        } else if writes && self.broken.is_none() {
            self.store.notices.set_trouble(None);
        }
        outcome
    }

    fn apply(
        &mut self,
        calls: &mut [Box<dyn Call>],
        writes: bool,
        bell: bool,
    ) -> Result<(), rusqlite::Error> {
        let store = &mut self.store;
        store.begin(writes)?;
        if bell && std::mem::take(&mut store.foreign) {
            look_around(store)?;
        }
        if writes {
            let time = store.time();
            only_store(lease::come_due(store, time))?;
        }
        for call in calls.iter_mut() {
            call.apply(store)?;
        }
        failpoint_if_settling(calls, "store-10-before-commit");
        store.commit(writes, calls.iter().any(|call| call.kind().is_durable()))?;
        failpoint_if_settling(calls, "store-11-committed");
        Ok(())
    }

    /// After the commit: answers now, or through the syncer.
    fn deliver(&mut self, calls: Vec<Box<dyn Call>>) {
        let news = std::mem::take(&mut self.store.effects.news);
        // Reserve the place of these events first, before another process can act on what was committed.
        let turn = self.store.notices.heard().filter(|_| !news.is_empty()).map(EventBus::keep_place);
        let (ring, ended) = self.store.take_effect();
        // Callers that wait for the end of a job wait for this sync.
        let reached = Some(self.store.reached.clone());
        let mut load = Load { urgent: !ended.is_empty(), ended, reached, ..Load::default() };
        if let Some(turn) = turn {
            load.asked.push(Box::new(move |after| {
                if after.is_ok() {
                    turn.tell(news);
                }
            }));
        }
        for call in calls {
            load.urgent |= call.kind() == Kind::Durable;
            match call.kind() {
                Kind::Settle | Kind::Durable => load.asked.push(Box::new(move |after| call.answer(after))),
                Kind::Read | Kind::Lease | Kind::Note | Kind::Fetch => call.answer(Ok(())),
            }
        }
        match &mut self.disk {
            Some(disk) => disk.held.append(load),
            None => load.finish(&Ok(())), // In memory there is nothing to sync.
        }
        self.hand_over(false);
        if let Some(disk) = self.disk.as_ref().filter(|_| ring) {
            disk.bell.ring();
        }
    }

    /// Gives the syncer its work, if that is urgent, has waited long enough or is the last.
    fn hand_over(&mut self, last: bool) {
        let now = clock::now();
        let Some(disk) = self.disk.as_mut().filter(|disk| !disk.held.is_empty()) else { return };
        disk.held.urgent |= last;
        if disk.held.urgent || now >= disk.handed + COMPANY {
            disk.handed = now;
            // If the syncer is gone it drops the replies, and the callers notice.
            let _ = disk.orders.send(Order::Sync(std::mem::take(&mut disk.held)));
        }
    }

    /// Checks the places of the files: what is written to moved or removed files is not durable either.
    fn look_for_files(&mut self) {
        let disk = self.disk.as_ref().filter(|_| self.broken.is_none());
        if let Some(lost) = disk.and_then(|disk| disk.place.lost()) {
            self.broke(lost);
        }
    }

    fn broke(&mut self, reason: String) {
        match self.store.is_ledger {
            true => {
                tracing::error!(store = %self.file, error = reason, "the history of jobs is not kept until the ledger is repaired")
            }
            false => {
                tracing::error!(store = %self.file, error = reason, "no job can be put or fetched until the store is repaired")
            }
        }
        self.store.notices.set_trouble(Some(reason.clone()));
        let wait = Duration::from_secs(1);
        self.broken.get_or_insert(Broken { reason, retry_at: clock::now() + wait, wait });
    }

    /// Tries to copy everything committed into the main file by a complete checkpoint, which ends in an fsync of that
    /// file.
    fn mend(&mut self) {
        const LONGEST: Duration = Duration::from_secs(30);
        let (Some(broken), Some(disk)) = (&mut self.broken, &mut self.disk) else { return };
        if broken.retry_at > clock::now() {
            return;
        }
        let whole = disk.place.lost().is_none() && disk.checkpoints.whole(&self.store);
        let wal = File::open(&disk.wal).ok().filter(|wal| whole && (self.store.world.sync)(wal).is_ok());
        let Some(wal) = wal else {
            broken.wait = (broken.wait * 2).min(LONGEST);
            broken.retry_at = clock::now() + broken.wait;
            return;
        };
        tracing::warn!(store = %self.file, "the store is durable again");
        let _ = disk.orders.send(Order::Mended(wal));
        self.broken = None;
        self.store.notices.set_trouble(None);
        self.store.notices.push(Notice::Wake(QueueSet::All));
    }

    /// Writes the collected statistics, and lets the syncer answer, before the file is closed.
    fn close(mut self) {
        if self.store.figures_due.is_some() {
            self.store.figures_due = Some(i64::MIN);
            self.take(Turn { timer: true, ..Turn::default() });
        }
        if let Some(disk) = self.disk {
            // The syncer ends with its channel, after what is left in it.
            drop(disk.orders);
            let _ = disk.syncer.join();
        }
    }
}

fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether the store cannot be written to at all, or not as much.
fn is_of_the_disk(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    is_locked(error) || matches!(code, Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure))
}

fn only_store(outcome: Result<(), Trouble>) -> Result<(), rusqlite::Error> {
    match outcome {
        Ok(()) => Ok(()),
        Err(Trouble::Store(error)) => Err(error),
        Err(Trouble::Mine(error)) => {
            tracing::error!(%error, "a call to the store failed");
            Ok(())
        }
    }
}

/// Failpoints around a settlement: a death there could lose it or apply it twice.
fn failpoint_if_settling(calls: &[Box<dyn Call>], name: &str) {
    if calls.iter().any(|call| call.kind() == Kind::Settle) {
        failpoint(name);
    }
}
