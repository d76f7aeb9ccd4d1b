//! How to open a store. Clocks and disk are functions that tests can replace.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::{Class, Instant, Payload};

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// Whether this process stays and listens: it watches the bell for what other processes put, cancel and settle.
    /// Otherwise `next_notice` and `ended` know of this process only.
    pub listen: bool,
    /// Whether this process fires recurring jobs and takes back expired leases. A short-lived client leaves that to the
    /// supervisors.
    pub serves: bool,
    /// Whether to refuse a store of an older program, whose supervisor may run, instead of changing its schema.
    pub keeps_schema: bool,
    /// How long to wait for another program that has locked the file.
    pub busy_timeout: Duration,
    /// The clocks, the disk and the file system to use.
    pub world: World,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: true,
            serves: true,
            keeps_schema: false,
            busy_timeout: Duration::from_secs(5),
            world: World::default(),
        }
    }
}

/// A question to the system that can fail.
pub(crate) type Probe<A, T> = Arc<dyn Fn(&A) -> io::Result<T> + Send + Sync>;

/// Names a job of this class and payload in lists.
pub(crate) type Title = Arc<dyn Fn(&Class, &Payload) -> String + Send + Sync>;

/// The clocks, disk and file system of a store, and how its lists name a job. Tests replace parts of it.
#[derive(Clone)]
pub struct World {
    /// The boot-time clock.
    pub now: Arc<dyn Fn() -> Instant + Send + Sync>,
    /// Milliseconds since 1970; read once per boot, and for schedules that go by the wall clock.
    pub wall_millis: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// The id of this boot.
    pub boot_id: Arc<dyn Fn() -> String + Send + Sync>,
    /// The file system's magic number, as `statfs` gives it.
    pub fs_type: Probe<Path, i64>,
    /// Makes what was written to a file durable.
    pub sync: Probe<File, ()>,
    /// The title of a job in lists.
    pub title: Title,
}

impl Default for World {
    fn default() -> Self {
        World {
            now: Arc::new(clock::now),
            title: Arc::new(|class: &Class, payload: &Payload| payload.title(class)),
            wall_millis: Arc::new(clock::wall_millis),
            boot_id: Arc::new(boot_id),
            fs_type: Arc::new(fs_type),
            sync: Arc::new(File::sync_data),
        }
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

fn fs_type(path: &Path) -> io::Result<i64> {
    Ok(nix::sys::statfs::statfs(path)?.filesystem_type().0)
}
