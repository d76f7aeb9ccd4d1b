//! The settings in force: those of the file when it was last read, and people's changes of pools since. A supervisor
//! that is started again goes on with both, whatever became of the file; only a start and a reload read the file.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::lasting;
use broker::Complaints;
use config::Config;
use engine::{Authors, KeepChanges};
use failure::Failure;
use model::{Change, Millis, PoolSettings, SizeRule};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Environment variables set by `start`: where the settings in force are kept, if they came from a file, and the changes.
const SETTINGS: &str = "TASKVISOR_SETTINGS_IN_FORCE";
const CHANGES: &str = "TASKVISOR_CHANGES_IN_FORCE";

/// What fails, in complaints.
const UNREAD: &str = "the pools start with their settings, as what people changed cannot be read";
const UNKEPT: &str = "what people change of pools ends with this supervisor";

/// Descriptors from this number on have no conventional use.
pub(crate) const DESCRIPTORS: i32 = 10;

/// Keeps the settings just read, if they came from a file, and no changes yet. Gives the variables that name both.
pub(crate) fn begin(config: &Config) -> Result<Vec<(&'static str, String)>, Failure> {
    let failed =
        |error: io::Error| Failure::from(error).of("failed to keep the settings in memory".to_owned());
    let mut named = vec![(CHANGES, Kept::make("taskvisor-changes").map_err(failed)?.named())];
    if let Some(file) = &config.file {
        let kept = Kept::make("taskvisor-settings").map_err(failed)?;
        kept.keep(&file.text).map_err(failed)?;
        named.push((SETTINGS, kept.named()));
    }
    Ok(named)
}

/// A text in memory. The keeper and each of its supervisors inherit it, and nobody can remove it, as happens to the files
/// of a run directory that is swept. A supervisor that is killed while it replaces the text leaves the old one or the new
/// one: it writes beside the one in force, and then one byte, which says where that is.
pub(super) struct Kept {
    texts: [PathBuf; 2],
    /// A file with the number of the text in force: 0 or 1.
    switch: PathBuf,
}

impl Kept {
    fn make(name: &str) -> io::Result<Kept> {
        Ok(Kept { texts: [in_memory(name)?, in_memory(name)?], switch: in_memory(name)? })
    }

    /// The value of the environment variable that passes it to the next process.
    fn named(&self) -> String {
        let [one, other] = &self.texts;
        [one, other, &self.switch].map(|path| path.display().to_string()).join(":")
    }

    /// Reads such a variable.
    fn of(variable: &str) -> Option<Kept> {
        let named = std::env::var(variable).ok()?;
        let mut paths = named.split(':').map(PathBuf::from);
        Some(Kept { texts: [paths.next()?, paths.next()?], switch: paths.next()? })
    }

    fn number(&self) -> usize {
        usize::from(fs::read(&self.switch).is_ok_and(|number| number == [1]))
    }

    /// The path of the text in force.
    fn path(&self) -> &Path {
        &self.texts[self.number()]
    }

    /// Replaces the text.
    pub(super) fn keep(&self, text: &str) -> io::Result<()> {
        self.keep_by(text, replace)
    }

    fn keep_by(&self, text: &str, mut write: impl FnMut(&Path, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let next = 1 - self.number();
        write(&self.texts[next], text.as_bytes())?;
        write(&self.switch, &[next as u8])
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(bytes, 0)?;
    file.set_len(bytes.len() as u64)
}

/// A file in memory. Settings may hold secrets, and no other user can open its path.
fn in_memory(name: &str) -> io::Result<PathBuf> {
    let file = memfd_create(name, MFdFlags::MFD_CLOEXEC)?;
    // The duplicate stays open over exec: the keeper and its supervisors inherit it.
    let kept = fcntl(&file, FcntlArg::F_DUPFD(DESCRIPTORS))?;
    Ok(format!("/proc/self/fd/{kept}").into())
}

/// The settings in force, if they are kept.
pub(super) fn settings() -> Option<Kept> {
    Kept::of(SETTINGS)
}

/// The path of the settings in force, if they are kept.
pub fn settings_in_force() -> Option<PathBuf> {
    settings().map(|kept| kept.path().to_owned())
}

/// The changes that hold, and who made them: those that an earlier supervisor of the same keeper has stored, else the
/// pauses that an earlier start has left. What cannot be read is a complaint until a change is kept.
pub(crate) fn changes(config: &Config, complaints: &Complaints) -> (Vec<(String, Change)>, Authors) {
    let Some(kept) = Kept::of(CHANGES) else { return Default::default() };
    let path = kept.path();
    let Some((mut changes, authors)) = stored(path, complaints) else {
        return lasting::pauses(config, complaints);
    };
    let kept = fs::metadata(path).and_then(|found| found.modified()).ok();
    let kept = kept.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let kept = Millis(kept.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(i64::MAX));
    changes.retain(|(pool, change)| !is_over(&config.settings.pools, pool, *change, (kept, clock::wall())));
    (changes, authors)
}

/// What an earlier supervisor of the same keeper has stored; None if this is the first.
fn stored(path: &Path, complaints: &Complaints) -> Option<(Vec<(String, Change)>, Authors)> {
    let read = match fs::read(path) {
        Ok(text) if text.is_empty() => return None,
        read => read.and_then(|text| Ok(serde_json::from_slice(&text)?)),
    };
    Some(read.unwrap_or_else(|error| {
        complaints.stands(UNREAD, &error, clock::now());
        Default::default()
    }))
}

/// Whether a size rule has begun since a pool was scaled, while no supervisor ran: then the rule counts.
fn is_over(pools: &[PoolSettings], pool: &str, change: Change, (kept, now): (Millis, Millis)) -> bool {
    let rules = pools.iter().find(|settings| settings.name == pool).map(|settings| &settings.sizes[..]);
    let come = rules.and_then(|rules| SizeRule::in_force(rules, now));
    matches!(change, Change::Scale(_)) && come.is_some_and(|(since, _)| since > kept)
}

/// Keeps the changes of pools for the next supervisor of the same keeper, and the pauses for the next start.
pub(crate) fn keep_changes(state_dir: &Path, complaints: &Complaints) -> KeepChanges {
    let (kept, complaints) = (Kept::of(CHANGES), complaints.clone());
    let lasting = lasting::Writer::new(state_dir, complaints.clone());
    Box::new(move |changes, authors| {
        store(kept.as_ref(), (changes, authors), &complaints);
        lasting.keep(authors.lasting(changes))
    })
}

/// Writes the changes into the keeper's memory file. A failure is a complaint until the next write succeeds.
fn store(kept: Option<&Kept>, all: (&[(String, Change)], &Authors), complaints: &Complaints) {
    let text = serde_json::to_string(&all).map_err(io::Error::from);
    match kept.map_or(Ok(()), |kept| text.and_then(|text| kept.keep(&text))) {
        Err(error) => complaints.stands(UNKEPT, &error, clock::now()),
        Ok(()) => [UNREAD, UNKEPT].iter().for_each(|what| complaints.well(what, clock::now())),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use model::Scale;

    #[test]
    fn shorter_text_replaces_a_longer_one_as_a_whole() {
        let kept = Kept::make("test").unwrap();
        for text in ["pools: [{name: a}]\n", "pools: []\n", ""] {
            kept.keep(text).unwrap();
            assert_eq!(fs::read_to_string(kept.path()).unwrap(), text);
        }
    }

    #[test]
    fn text_of_a_writer_that_is_killed_halfway_is_the_old_one() {
        let kept = Kept::make("test").unwrap();
        let (old, new) = ["old", "new"].map(|name| format!("{name}: x\n").repeat(10_000)).into();
        for text in [&old, &new, &old] {
            kept.keep(text).unwrap();
            for whole in 0..2 {
                let mut writes = 0;
                // It is killed in the middle of one of its writes.
                let killed = kept.keep_by("other: y\n".repeat(9_000).as_str(), |path, bytes| {
                    writes += 1;
                    if writes <= whole {
                        return replace(path, bytes);
                    }
                    // A single byte is written or not.
                    let half = &bytes[..bytes.len() / 2];
                    let begun = if half.is_empty() { Ok(()) } else { replace(path, half) };
                    begun.and(Err(io::ErrorKind::Interrupted.into()))
                });
                assert!(killed.is_err() && fs::read_to_string(kept.path()).unwrap() == *text);
            }
        }
    }

    #[test]
    fn changes_that_cannot_be_read_or_kept_are_told_until_one_is_kept() {
        let (kept, complaints) = (Kept::make("test").unwrap(), Complaints::default());
        let told = || complaints.told(clock::now()).into_iter().map(|told| told.what).collect::<Vec<_>>();
        assert!(stored(kept.path(), &complaints).is_none(), "the first supervisor finds nothing");
        kept.keep("{").unwrap();
        assert!(stored(kept.path(), &complaints).is_some_and(|(changes, _)| changes.is_empty()));
        assert_eq!(told(), [UNREAD]);
        let (changes, authors) = ([("a".to_owned(), Change::Pause)], Authors::default());
        let gone = Kept { texts: ["/no/a", "/no/b"].map(PathBuf::from), switch: "/no/c".into() };
        store(Some(&gone), (&changes, &authors), &complaints);
        assert_eq!(told(), [UNREAD, UNKEPT]);
        store(Some(&kept), (&changes, &authors), &complaints);
        assert!(told().is_empty());
        let again = stored(kept.path(), &complaints).unwrap();
        assert_eq!(again.0, changes);
    }

    #[test]
    fn manual_scale_holds_until_the_next_time_of_day_size() {
        let rule = SizeRule { at: "0 8 * * *".parse().unwrap(), zone: TimeZone::UTC, workers: 16 };
        let pools = [PoolSettings { name: "p".into(), sizes: vec![rule], ..PoolSettings::default() }];
        let hour = |hour: i64| Millis((24 + hour) * 3_600_000);
        let is_over = |pool, change, kept, now| is_over(&pools, pool, change, (hour(kept), hour(now)));
        let scale = Change::Scale(Scale::To(3));
        assert!(!is_over("p", scale, 6, 7), "8 o'clock is to come");
        assert!(is_over("p", scale, 7, 9), "it came while nobody was there");
        assert!(!is_over("p", scale, 9, 10), "the scale is younger");
        assert!(!is_over("p", Change::Pause, 7, 9), "a pause lasts");
        assert!(!is_over("other", scale, 7, 9), "it has no sizes");
    }
}
