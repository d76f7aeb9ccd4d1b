//! Removes old files of jobs' output.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, DirEntry, ReadDir};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::index::{is_index, remove_records, room};
use super::private::write_private;
use model::{Instant, Millis};

/// Limits on the output that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Limit of the bytes of all files.
    pub quota: u64,
    /// How long to keep a file after it was last written to.
    pub keep: Duration,
}

/// Tracks the total size without reading each file again. It scans all files once at the start, once an hour for old
/// ones, and when there is too much. A scan goes in steps and keeps nothing about single files.
pub(super) struct OutputRetention {
    root: PathBuf,
    limits: Limits,
    used: u64,
    /// Start a scan when there are more bytes than this.
    most: u64,
    look: Option<Look>,
    next: Instant,
}

/// State of a scan over all files.
struct Look {
    aim: Aim,
    groups: Vec<PathBuf>,
    group: Option<ReadDir>,
    /// Bytes found by counting, or freed by removing.
    bytes: u64,
    /// Bytes that were counted as used when the scan began.
    before: u64,
}

enum Aim {
    Count(Found),
    Remove(Cut),
}

/// Bytes by the moment of the last write, as fine as a limited number of moments allows.
struct Found {
    /// Milliseconds that count as one moment.
    grain: i64,
    bytes: BTreeMap<i64, u64>,
}

/// The files to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    grain: i64,
    /// Files last written to before this moment are removed,
    moment: i64,
    /// and this many bytes of files of this moment.
    rest: u64,
}

/// Interval of scans for old files.
const EVERY: Duration = Duration::from_secs(3600);

/// Number of files in one step.
const STEP: usize = 1000;

/// Limit of the moments kept apart.
const MOMENTS: usize = 10_000;

/// The file that says until when files were removed.
const REMOVED: &str = "removed";

/// Up to which time the output of jobs was removed from the directory of all; None = nothing was.
pub(super) fn removed_until(root: &Path) -> Option<Millis> {
    fs::read_to_string(root.join(REMOVED)).ok()?.trim().parse().ok().map(Millis)
}

impl OutputRetention {
    pub(crate) fn new(root: PathBuf, limits: Limits, now: Instant) -> OutputRetention {
        OutputRetention { root, limits, used: 0, most: limits.quota, look: None, next: now }
    }

    /// Notes that a file has grown.
    pub(crate) fn grown(&mut self, from: u64, to: u64) {
        self.used = self.used.saturating_add(room(to)).saturating_sub(room(from));
    }

    /// Bytes that all files take, as far as they were counted.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Time until there is something to do.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        match self.look.is_some() || self.used > self.most {
            true => Duration::ZERO,
            false => self.next.since(now),
        }
    }

    /// Does one step of what is due; `wall` is the time of the day. Files in `written` are in use and stay.
    pub(crate) fn step(&mut self, now: Instant, wall: Millis, written: &HashSet<PathBuf>) {
        if self.wait(now) > Duration::ZERO {
            return;
        }
        let mut look = self
            .look
            .take()
            .unwrap_or_else(|| self.look(Aim::Count(Found { grain: 1, bytes: BTreeMap::new() })));
        for _ in 0..STEP {
            let Some(entry) = look.next() else { return self.looked(look, now, wall) };
            look.meet(&entry, written);
        }
        self.look = Some(look);
    }

    fn look(&self, aim: Aim) -> Look {
        let groups = fs::read_dir(&self.root).into_iter().flatten().flatten();
        Look {
            aim,
            groups: groups.map(|group| group.path()).collect(),
            group: None,
            bytes: 0,
            before: self.used,
        }
    }

    fn looked(&mut self, look: Look, now: Instant, wall: Millis) {
        match look.aim {
            Aim::Count(found) => {
                // Bytes written meanwhile may count twice: better to scan again too early.
                self.used = look.bytes + self.used.saturating_sub(look.before);
                let cut = self.cut(&found, wall);
                // Noted first, so that every removal is known.
                cut.inspect(|cut| self.note(*cut));
                self.look = cut.map(|cut| self.look(Aim::Remove(cut)));
            }
            Aim::Remove(_) => self.used = self.used.saturating_sub(look.bytes),
        }
        // Files in use cannot be removed: do not scan again at every write.
        self.most = self.limits.quota.max(self.used + self.limits.quota / 10);
        self.next = now + EVERY;
    }

    /// The files to remove. If there is too much, a tenth of the quota is made free, so that it is not full again at
    /// once.
    fn cut(&self, found: &Found, wall: Millis) -> Option<Cut> {
        let grain = found.grain;
        let keep = i64::try_from(self.limits.keep.as_millis()).unwrap_or(i64::MAX);
        let mut cut = Cut { grain, moment: wall.0.saturating_sub(keep).div_euclid(grain), rest: 0 };
        let mut excess = match self.used > self.limits.quota {
            true => self.used - self.limits.quota / 10 * 9,
            false => 0,
        };
        for (&moment, &bytes) in &found.bytes {
            if moment >= cut.moment {
                if excess == 0 {
                    break;
                }
                cut = Cut { moment, rest: excess, ..cut };
            }
            excess = excess.saturating_sub(bytes);
        }
        let oldest = found.bytes.keys().next().copied()?;
        (oldest < cut.moment || cut.rest > 0).then_some(cut)
    }

    /// Best effort: the note only helps people.
    fn note(&self, cut: Cut) {
        let until = (cut.moment + i64::from(cut.rest > 0)) * cut.grain;
        if removed_until(&self.root).is_none_or(|before| before.0 < until) {
            write_private(&self.root.join(REMOVED), until.to_string()).ok();
        }
    }
}

impl Look {
    fn next(&mut self) -> Option<DirEntry> {
        loop {
            match self.group.as_mut().and_then(Iterator::next) {
                Some(Ok(entry)) => return Some(entry),
                // A directory that cannot be read completely is left for the next scan.
                Some(Err(_)) | None => self.group = None,
            }
            while self.group.is_none() {
                self.group = fs::read_dir(self.groups.pop()?).ok();
            }
        }
    }

    fn meet(&mut self, entry: &DirEntry, written: &HashSet<PathBuf>) {
        let Some(found) = entry.metadata().ok().filter(|found| found.is_file()) else { return };
        let bytes = room(found.len());
        let written_at = found.mtime() * 1000 + found.mtime_nsec() / 1_000_000;
        match &mut self.aim {
            Aim::Count(all) => {
                all.add(written_at, bytes);
                self.bytes += bytes;
            }
            Aim::Remove(cut) => {
                let (path, moment) = (entry.path(), written_at.div_euclid(cut.grain));
                let goes = moment < cut.moment || (moment == cut.moment && cut.rest > 0);
                // Records are removed with their output.
                let stays = written.contains(&path)
                    || (is_index(&path) && path.with_extension("log").symlink_metadata().is_ok());
                if goes && !stays && fs::remove_file(&path).is_ok() {
                    let bytes = bytes + remove_records(&path);
                    self.bytes += bytes;
                    if moment == cut.moment {
                        cut.rest = cut.rest.saturating_sub(bytes);
                    }
                }
            }
        }
    }
}

impl Found {
    fn add(&mut self, millis: i64, bytes: u64) {
        *self.bytes.entry(millis.div_euclid(self.grain)).or_default() += bytes;
        while self.bytes.len() > MOMENTS {
            self.grain *= 4;
            for (moment, bytes) in std::mem::take(&mut self.bytes) {
                *self.bytes.entry(moment.div_euclid(4)).or_default() += bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    const NOW: Millis = Millis(1_790_000_000_000);
    const DAY: Duration = Duration::from_secs(86_400);

    struct Stage {
        dir: tempfile::TempDir,
        shelf: OutputRetention,
        now: Instant,
        written: HashSet<PathBuf>,
    }

    impl Stage {
        fn new(quota: u64, keep: Duration) -> Stage {
            let dir = tempfile::tempdir().unwrap();
            let now = Instant(1 << 40);
            let shelf = OutputRetention::new(dir.path().to_owned(), Limits { quota, keep }, now);
            Stage { dir, shelf, now, written: HashSet::new() }
        }

        fn path(&self, name: &str) -> PathBuf {
            let stem = name.trim_end_matches(".log").trim_end_matches(".idx");
            self.dir.path().join(&stem[stem.len() - 2..]).join(name)
        }

        /// Makes a file that was last written this long ago.
        fn file(&self, name: &str, age: Duration, len: u64) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = File::create(path).unwrap();
            file.set_len(len).unwrap();
            let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(NOW.0 as u64);
            file.set_modified(wall - age).unwrap();
        }

        /// Steps until no work is left.
        fn work(&mut self) -> usize {
            let mut steps = 0;
            while self.shelf.wait(self.now) == Duration::ZERO {
                self.shelf.step(self.now, NOW, &self.written);
                steps += 1;
                assert!(steps < 1000, "it never ends");
            }
            steps
        }

        fn names(&self) -> Vec<String> {
            let groups =
                fs::read_dir(self.dir.path()).unwrap().flatten().filter(|group| group.path().is_dir());
            let files = groups.flat_map(|group| fs::read_dir(group.path()).unwrap().flatten());
            let mut names: Vec<String> = files.map(|file| file.file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn expired_output_is_removed_at_the_start_and_every_hour() {
        let mut stage = Stage::new(1 << 30, 2 * DAY);
        stage.file("a1", 3 * DAY, 10);
        stage.file("b1", DAY, 10);
        stage.work();
        assert_eq!(stage.names(), ["b1"]);
        assert_eq!(removed_until(stage.dir.path()), Some(Millis(NOW.0 - 172_800_000)));
        stage.file("c1", 3 * DAY, 10);
        assert_eq!(stage.work(), 0, "it waits for its hour");
        stage.now = stage.now + EVERY;
        stage.work();
        assert_eq!(stage.names(), ["b1"]);
    }

    #[test]
    fn records_stay_as_long_as_their_output() {
        let mut stage = Stage::new(1 << 30, 2 * DAY);
        for (name, age) in [("old.log", 3), ("old.idx", 4), ("new.log", 1), ("new.idx", 4), ("none.idx", 4)] {
            stage.file(name, age * DAY, 10);
        }
        stage.work();
        assert_eq!(stage.names(), ["new.idx", "new.log"]);
    }

    #[test]
    fn output_over_the_quota_is_removed_oldest_first() {
        let mut stage = Stage::new(10 * 4096, 30 * DAY);
        for n in 0..12 {
            stage.file(&format!("f{n:02}"), DAY - Duration::from_millis(n), 100);
        }
        stage.work();
        // Down to nine tenths of the quota.
        let all: Vec<String> = (3..12).map(|n| format!("f{n:02}")).collect();
        assert_eq!(stage.names(), all);
        assert!(removed_until(stage.dir.path()).is_some());
    }

    #[test]
    fn no_more_files_of_equal_age_are_removed_than_necessary() {
        let mut stage = Stage::new(10 * 4096, 30 * DAY);
        for n in 0..12 {
            stage.file(&format!("g{n:02}"), DAY, 100);
        }
        stage.work();
        assert_eq!(stage.names().len(), 9);
    }

    #[test]
    fn index_of_many_pieces_is_coarser() {
        let mut found = Found { grain: 1, bytes: BTreeMap::new() };
        for n in 0..30_000 {
            found.add(NOW.0 + n, 1);
        }
        assert_eq!((found.grain, found.bytes.values().sum()), (4, 30_000u64));
        let shelf = OutputRetention::new(PathBuf::new(), Limits { quota: 20_000, keep: DAY }, Instant(0));
        let cut = OutputRetention { used: 30_000, ..shelf }.cut(&found, NOW);
        assert_eq!(cut, Some(Cut { grain: 4, moment: NOW.0 / 4 + 2_999, rest: 4 }));
    }

    #[test]
    fn file_in_use_is_kept_without_a_scan_at_every_write() {
        let mut stage = Stage::new(4096, DAY);
        stage.file("a1", 3 * DAY, 100_000);
        stage.file("b1", 3 * DAY, 1);
        stage.written.insert(stage.path("a1"));
        stage.work();
        assert_eq!(stage.names(), ["a1"]);
        stage.shelf.grown(100_000, 100_100);
        assert_eq!(stage.work(), 0);
        stage.shelf.grown(0, 5_000);
        assert!(stage.work() > 0);
    }

    #[test]
    fn only_growth_triggers_a_scan() {
        let mut stage = Stage::new(8192, DAY);
        assert!(stage.work() > 0);
        stage.file("a1", DAY / 2, 8192);
        stage.shelf.grown(0, 8192);
        assert_eq!(stage.work(), 0);
        stage.file("b1", DAY / 3, 1);
        stage.shelf.grown(0, 1);
        stage.work();
        assert_eq!(stage.names(), ["b1"]);
        assert_eq!(stage.shelf.used, 4096);
    }

    #[test]
    fn many_files_are_scanned_in_steps() {
        let mut stage = Stage::new(1 << 30, DAY);
        for n in 0..2_500 {
            stage.file(&format!("{n:04}"), 2 * DAY, 1);
        }
        let steps = stage.work();
        assert!((5..=7).contains(&steps), "{steps}");
        assert!(stage.names().is_empty());
    }
}
