//! Checks the place of the store: its file system, free space, and how fast writes are durable.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statfs::statfs;
use nix::sys::statvfs::statvfs;

use crate::cli::term::screen::size;
use boot::refuse_gone_store;
use broker::{Address, Opening, Place};
use config::Config;
use model::{Finding, Fitness};

/// If a write takes longer than this, a queue of short jobs waits for the disk.
const SLOW: Duration = Duration::from_millis(10);

/// Less free space than this is soon used up.
const LITTLE: u64 = 256 << 20;

const ROUNDS: u64 = 16;

pub(super) fn checks(config: &Config) -> Vec<Finding> {
    let path = match config.broker.place() {
        Place::File(path) => path,
        Place::Supervisor => return vec![memory()],
        Place::Server => return vec![server(config)],
    };
    let directory = path.parent().unwrap_or(Path::new("/"));
    let existing = existing(directory);
    vec![
        store(config, file_system(directory, &existing)),
        room(&existing),
        durability(time_to_disk(&existing)),
    ]
}

fn memory() -> Finding {
    Finding::less("store", "in memory", "jobs are gone with the supervisor", "--broker sqlite:PATH")
}

/// Whether the server answers, and accepts our login.
fn server(config: &Config) -> Finding {
    let url = &config.broker;
    let asked = async {
        let broker = url.open(&Opening::passing(&config.state_dir))?;
        Ok::<_, broker::Error>((broker.counts().await?, url.concern().await?))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map(|runtime| runtime.block_on(asked)) {
        Ok(asked) => {
            let asked = asked.map(|(queues, concern)| (queues.len(), concern));
            Finding::of_server(&url.to_string(), asked.map_err(|error| error.to_string()))
        }
        Err(error) => Finding::bad("store", error.to_string(), "it cannot be asked", "more open files"),
    }
}

/// Checks the file system, unless the file is one that a supervisor would refuse.
fn store(config: &Config, place: Finding) -> Finding {
    match refuse_gone_store(config).and_then(|()| config.broker.look()) {
        // A bad file system is the cause of whatever the store says.
        Err(error) if place.state != Fitness::Bad => {
            Finding::bad("store", error.to_string(), "start refuses it, and no job can be put", "")
        }
        Err(_) => place,
        Ok(()) => match lost(&config.broker) {
            Some(lost) => Finding::bad("store", lost, "the program that put them does not know", ""),
            None => place,
        },
    }
}

/// What a store in a file has lost.
fn lost(broker: &Address) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().ok()?;
    runtime.block_on(broker.concern()).ok()?
}

/// The directory, or the existing one in which it will be made.
fn existing(directory: &Path) -> PathBuf {
    directory.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn file_system(directory: &Path, existing: &Path) -> Finding {
    match statfs(existing) {
        Ok(found) => judge(directory, found.filesystem_type().0),
        Err(errno) => Finding::bad(
            "store",
            format!("{}: {}", directory.display(), errno.desc()),
            "nothing can be stored",
            "--state-dir with a directory that can be read",
        ),
    }
}

/// Judges the file system by its magic number.
fn judge(directory: &Path, magic: i64) -> Finding {
    let found = |name: &str| format!("{} on {name}", directory.display());
    let local = "--state-dir on a local disk";
    // As in statfs(2). SMB has three: its oldest form, CIFS, and version 2 and later.
    match magic {
        0x6969 => Finding::bad(
            "store",
            found("NFS"),
            "locks and fsync do not hold there: the store is refused",
            local,
        ),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => {
            Finding::less("store", found("SMB"), "locks and fsync may not hold there", local)
        }
        0x6573_5546 => Finding::less(
            "store",
            found("FUSE"),
            "whether locks and fsync hold is up to the program behind it",
            local,
        ),
        0x0102_1994 | 0x8584_58f6 => Finding::less(
            "store",
            found("tmpfs"),
            "jobs are gone with the next boot",
            "--state-dir on a disk",
        ),
        0x794c_7630 => Finding::less(
            "store",
            found("the overlay of a container"),
            "jobs are gone with the container",
            "a volume for the state directory",
        ),
        _ => Finding::ok("store", found("a local disk")),
    }
}

fn room(existing: &Path) -> Finding {
    let free = statvfs(existing).map(|found| found.blocks_available() * found.fragment_size());
    match free {
        Ok(free) if free < LITTLE => Finding::less(
            "room",
            format!("{} are free", size(free)),
            "when it is used up, put fails and output of jobs is dropped; no job is lost",
            "free some space",
        ),
        Ok(free) => Finding::ok("room", format!("{} are free", size(free))),
        Err(errno) => Finding::ok("room", format!("not told: {}", errno.desc())),
    }
}

fn durability(measured: io::Result<Duration>) -> Finding {
    match measured {
        Ok(time) if time > SLOW => Finding::less(
            "fsync",
            format!("{:.1} ms", time.as_secs_f64() * 1e3),
            "each put waits for it, and each verdict; slots do not",
            "a faster disk for the state directory; many jobs by one put (--lines)",
        ),
        Ok(time) => Finding::ok("fsync", format!("{:.2} ms", time.as_secs_f64() * 1e3)),
        Err(error) => Finding::ok("fsync", format!("not measured: {error}")),
    }
}

/// The median time until a page is durable, measured with a file without a name, which leaves nothing behind.
fn time_to_disk(directory: &Path) -> io::Result<Duration> {
    let file =
        OpenOptions::new().write(true).custom_flags(nix::libc::O_TMPFILE).mode(0o600).open(directory)?;
    let mut times: Vec<Duration> =
        (0..ROUNDS).map(|round| write_page(&file, round)).collect::<Result<_, _>>()?;
    // The median: one of them may have waited for what other programs write.
    times.sort();
    Ok(times[times.len() / 2])
}

fn write_page(file: &File, round: u64) -> io::Result<Duration> {
    let start = clock::now();
    file.write_all_at(&[round as u8; 4096], round * 4096)?;
    file.sync_data()?;
    Ok(clock::now().since(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_is_recognized_by_its_magic_number() {
        let judge = |magic| judge(Path::new("/var/lib/taskvisor"), magic).state;
        assert_eq!(judge(0x6969), Fitness::Bad);
        for lost in [0x0102_1994, 0x794c_7630, 0x6573_5546, 0xff53_4d42] {
            assert_eq!(judge(lost), Fitness::Less);
        }
        assert_eq!(judge(0xef53), Fitness::Ok);
    }

    #[test]
    fn missing_directory_is_judged_by_its_parent() {
        assert_eq!(existing(Path::new("/proc/self/not/there")), Path::new("/proc/self"));
    }

    #[test]
    fn slow_disk_is_reported() {
        assert_eq!(durability(Ok(Duration::from_millis(40))).state, Fitness::Less);
        assert_eq!(durability(Ok(Duration::from_micros(90))).state, Fitness::Ok);
        assert_eq!(durability(Err(io::Error::other("no"))).state, Fitness::Ok);
    }

    #[test]
    fn disk_measurement_leaves_no_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let measured = time_to_disk(directory.path());
        assert!(measured.is_ok_and(|time| time > Duration::ZERO));
        assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
    }
}
