//! The handle of the store for its users: it starts the threads, sends them requests, and ends them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI32;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::call::{Ask, Kind};
use super::checkpoint::Checkpoints;
use super::count::{self, CountFile, Losses, Reached};
use super::expiry_time::Expiry;
use super::lost;
use super::message::Message;
use super::notify_file::{Bell, Ear};
use super::open;
use super::options::{Options, World};
use super::place::Place;
use super::store::{Effects, Store};
use super::syncer::{Load, Syncer};
use super::thread::{Disk, Room};
use super::trouble::{Trouble, explain};
use broker::Error;
use common::Notices;
use model::Instant;

/// Limit of the requests under way; others wait for a place.
const CALLS_MAX: usize = 1024;

/// A store of jobs in a SQLite file, or in memory.
pub struct Sqlite {
    inbox: Sender<Message>,
    room: Arc<Semaphore>,
    pub(super) notices: Arc<Notices>,
    pub(super) world: World,
    pub(super) files: Option<Files>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What a store in a file has beside it.
pub(super) struct Files {
    pub(super) wal: PathBuf,
    pub(super) place: Place,
    pub(super) losses: Losses,
    pub(super) ear: Option<Ear>,
}

impl Sqlite {
    /// Opens the store in the file `path`, which is made if it does not exist. Blocks for some milliseconds.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Sqlite, Error> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let conn = open::connect(path, &options)?;
        let (inbox, messages) = channel();
        let (store, notices) = new_store(conn, &options.world, &file, options.serves)?;
        let (losses, mut count) = (Losses::of(path), CountFile::open(path, notices.complaints.clone()));
        losses.look(&store.conn, &mut count).map_err(|error| explain("open", &file, &error))?;
        let beside = |suffix: &str| lost::beside(path, suffix);
        let failed = |error: std::io::Error| Error::Failed(format!("cannot open the store {file}: {error}"));
        let disk = disk(path, &options, count, inbox.clone()).map_err(failed)?;
        let ear = if options.listen {
            Some(Ear::listen(&beside("-bell"), &disk.place, inbox.clone()).map_err(failed)?)
        } else {
            None
        };
        let files = Files { wal: beside("-wal"), place: disk.place.clone(), losses, ear };
        let thread = start(store, messages, file.clone(), Some(disk)).map_err(failed)?;
        Ok(Sqlite::new(inbox, notices, options.world, Some(files), thread))
    }

    /// Finds the errors of [`Sqlite::open`] for the file `path` without changing anything.
    pub fn look(path: impl AsRef<Path>) -> Result<(), Error> {
        open::look(path.as_ref(), &World::default())
    }

    /// How many jobs in the file `path` have not ended; None if that cannot be read, or if there is no store. Changes
    /// nothing.
    pub fn unfinished(path: impl AsRef<Path>) -> Option<u64> {
        open::unfinished(path.as_ref())
    }

    /// Sets aside what is left of the lost store in the file `path`, so that the next opening makes a new one. Refused
    /// if there is a store. No process may use it meanwhile.
    pub fn replace_with_new(path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let file = path.display();
        match Sqlite::look(path) {
            Ok(()) if !path.exists() => Ok(()),
            Ok(()) => Err(Error::Refused(format!(
                "cannot begin a new store: {file} holds one already: leave --new-store away to use it; to do without its jobs, \
                 move {file} away first"
            ))),
            Err(Error::Lost(_)) => lost::set_aside(path).map_err(|error| {
                Error::Failed(format!("cannot set aside what is left of the store {file}: {error}"))
            }),
            Err(error) => Err(error),
        }
    }

    /// A store in memory, which is lost with its last user.
    pub fn memory() -> Result<Sqlite, Error> {
        Sqlite::memory_in(World::default())
    }

    /// A store in memory, with its own clocks and disk.
    pub fn memory_in(world: World) -> Result<Sqlite, Error> {
        let (inbox, messages) = channel();
        let (store, notices) = new_store(open::connect_memory()?, &world, "in memory", true)?;
        let thread = start(store, messages, "in memory".into(), None)
            .map_err(|error| Error::Failed(format!("cannot start the store's thread: {error}")))?;
        Ok(Sqlite::new(inbox, notices, world, None, thread))
    }

    fn new(
        inbox: Sender<Message>,
        notices: Arc<Notices>,
        world: World,
        files: Option<Files>,
        thread: JoinHandle<()>,
    ) -> Sqlite {
        let room = Arc::new(Semaphore::new(CALLS_MAX));
        Sqlite { inbox, room, notices, world, files, thread: Mutex::new(Some(thread)) }
    }

    /// The store's notices; others may add notices too.
    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Lets the store's thread look at its files.
    pub(super) fn look_now(&self) {
        // It fails if the thread has ended, which its callers notice.
        let _ = self.inbox.send(Message::Bell);
    }

    /// The moment at which a call begins: its times count from here.
    pub(super) fn now(&self) -> Instant {
        (self.world.now)()
    }

    /// Sends `work` to the store's thread.
    pub(super) async fn run<T, W>(&self, kind: Kind, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: FnMut(&mut Store) -> Result<T, Trouble> + Send + 'static,
    {
        let closed = || Error::Failed("the store is closed".into());
        let permit = self.room.clone().acquire_owned().await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let call = Box::new(Ask { kind, work, result: None, reply, _permit: permit });
        self.inbox.send(Message::Call(call)).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        drop(self.files.take());
        let _ = self.inbox.send(Message::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

fn new_store(
    mut conn: Connection,
    world: &World,
    file: &str,
    serves: bool,
) -> Result<(Store, Arc<Notices>), Error> {
    let opening = |error: rusqlite::Error| explain("open", file, &error);
    let (ahead, seen) = open::start_clock(&conn, world).map_err(opening)?;
    let wal_pages = Arc::new(AtomicI32::new(0));
    let pages = wal_pages.clone();
    // A hook takes the place of SQLite's own checkpoints: `checkpoint.rs` makes them, by the length noted here.
    conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count| {
        pages.store(count, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }))
    .map_err(opening)?;
    let notices = Arc::new(Notices::default());
    let mut store = Store {
        world: world.clone(),
        notices: notices.clone(),
        ahead,
        seen,
        leases: Default::default(),
        waiters: Default::default(),
        waiters_checked_at: 0,
        effects: Effects::default(),
        wall_ahead: None,
        put_off: Default::default(),
        refused_at: None,
        serves,
        is_ledger: false,
        next_due: None,
        queues: Default::default(),
        options: None,
        limited: Default::default(),
        barren: Default::default(),
        data_version: 0,
        foreign: false,
        figures: Default::default(),
        figures_due: None,
        expiry: Expiry::new(
            i64::try_from((world.now)().as_millis()).unwrap_or(i64::MAX).saturating_add(ahead),
        ),
        wal_pages,
        reached: Reached { count: count::on_file(&conn).map_err(opening)?, latest: None },
        changes_made: conn.total_changes(),
        conn,
    };
    store.next_due = store.next_due_on_file().map_err(opening)?;
    Ok((store, notices))
}

fn disk(path: &Path, options: &Options, count: CountFile, store: Sender<Message>) -> std::io::Result<Disk> {
    let wal = lost::beside(path, "-wal");
    let bell = Bell::open(&lost::beside(path, "-bell"), options.listen)?;
    let (file, place) = (File::open(&wal)?, Place::of(path)?);
    open::sync_directory(path)?;
    let (orders, received) = channel();
    let syncer = Syncer {
        wal: file,
        name: wal.display().to_string(),
        world: options.world.clone(),
        orders: received,
        store,
        broken: None,
        place: place.clone(),
        count,
        load: Load::default(),
    };
    let syncer = Builder::new().name("store syncer".into()).spawn(move || syncer.run())?;
    let (held, handed) = (Load::default(), Instant(0));
    Ok(Disk {
        wal,
        place,
        bell,
        orders,
        syncer,
        checkpoints: Checkpoints::new(options.busy_timeout, path.display().to_string()),
        held,
        handed,
    })
}

fn start(
    store: Store,
    inbox: Receiver<Message>,
    file: String,
    disk: Option<Disk>,
) -> std::io::Result<JoinHandle<()>> {
    let room = Room { store, inbox, file, disk, broken: None, quiet_until: Instant(0) };
    Builder::new().name("store".into()).spawn(move || room.run())
}
