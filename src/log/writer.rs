//! The thread that writes the output of children.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::index::{Index, Mark, since};
use super::lines::{JobFile, Line, Places, Shared};
use super::output_retention::{Limits, OutputRetention};
use super::private::write_private;
use super::rotated::{Rotated, write};
use model::{Instant, JobId, LogSettings, Millis, Rotate};

/// Limit of the open files, of jobs and of slots each.
const OPEN: usize = 256;

/// Interval of tries while the disk fails.
const PROBE: Duration = Duration::from_secs(1);

/// Lines to write between two steps of removing old files, however many more wait.
const STRETCH: u32 = 16;

pub(super) struct Writer {
    job: JobFile,
    shelf: OutputRetention,
    /// Since when there are records of when output was written.
    indexed: Millis,
    /// Attempts that have printed something and have not ended.
    attempts: HashMap<JobId, Attempt>,
    /// Number of attempts whose file is open.
    open: usize,
    slots: BTreeMap<String, Rotated>,
    dir: PathBuf,
    rotate: Rotate,
    /// The path that could not be written, and when to try again.
    failed: Option<(PathBuf, Instant)>,
    shared: Arc<Shared>,
}

/// The output of one attempt.
#[derive(Default)]
struct Attempt {
    file: Option<Opened>,
    /// Bytes that the disk did not take.
    lost: u64,
}

struct Opened {
    file: File,
    len: u64,
    index: Index,
}

impl Writer {
    pub(crate) fn new(settings: &LogSettings, places: Places, shared: Arc<Shared>) -> Writer {
        let limits = Limits { quota: settings.quota, keep: settings.keep };
        Writer {
            job: places.job,
            indexed: since(&places.jobs, Millis(clock::wall_millis())),
            shelf: OutputRetention::new(places.jobs, limits, clock::now()),
            attempts: HashMap::new(),
            open: 0,
            slots: BTreeMap::new(),
            dir: settings.dir.clone().unwrap_or_default(),
            rotate: settings.rotate,
            failed: None,
            shared,
        }
    }

    pub(crate) fn run(mut self, lines: &Receiver<Line>) {
        let mut stretch = 0;
        loop {
            match lines.recv_timeout(self.patience()) {
                Ok(line) => {
                    self.take(line);
                    stretch += 1;
                    if stretch < STRETCH {
                        continue;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.probe(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            stretch = 0;
            self.tidy();
        }
    }

    /// How long to wait for output before there is something else to do.
    fn patience(&self) -> Duration {
        let now = clock::now();
        let probe = self.failed.as_ref().map(|(_, at)| at.since(now));
        probe.into_iter().fold(self.shelf.wait(now), Duration::min)
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Job { job, mark, bytes } => {
                let mut rest = bytes.as_slice();
                let result = self.write_job(&job, mark, &mut rest);
                self.shared.written(&bytes);
                if let Some(attempt) = self.attempts.get_mut(&job) {
                    attempt.lost += rest.len() as u64;
                }
                self.note(rest, result, |writer| (writer.job)(&job));
            }
            Line::Slot(name, bytes) => {
                let mut rest = bytes.as_slice();
                let result = self.write_slot(&name, &mut rest);
                self.shared.written(&bytes);
                self.note(rest, result, |writer| writer.dir.join(&name));
            }
            Line::End(job, written) => {
                let ended = self.attempts.remove(&job).unwrap_or_default();
                self.open -= usize::from(ended.file.is_some());
                written.send(ended.lost).ok();
            }
            Line::Reopen => self.slots.clear(),
        }
    }

    /// Writes, and removes the written part from `bytes`.
    fn write_job(&mut self, job: &JobId, mark: Mark, bytes: &mut &[u8]) -> io::Result<()> {
        let attempt = self.attempts.entry(job.clone()).or_default();
        // Others may remove the file or empty it, as logrotate does with copytruncate: then its records are of output
        // that is gone.
        let is_changed = |opened: &Opened| {
            opened.file.metadata().is_ok_and(|found| found.nlink() == 0 || found.len() < opened.len)
        };
        if attempt.file.as_ref().is_none_or(is_changed) {
            self.open -= usize::from(attempt.file.take().is_some());
            let opened = self.open(&(self.job)(job))?;
            self.attempts.entry(job.clone()).or_default().file = Some(opened);
            self.open += 1;
        }
        let Some(opened) = self.attempts.get_mut(job).and_then(|attempt| attempt.file.as_mut()) else {
            return Ok(());
        };
        let (before, to_go, records) = (opened.len, bytes.len(), opened.index.len());
        // If the mark cannot be written, the disk will hardly take the output.
        let noted = opened.index.note(before, mark);
        let result = write(&mut opened.file, bytes);
        opened.len += (to_go - bytes.len()) as u64;
        self.shelf.grown(before, opened.len);
        self.shelf.grown(records, opened.index.len());
        self.shared.uses(self.shelf.used());
        result.and(noted)
    }

    fn write_slot(&mut self, name: &str, bytes: &mut &[u8]) -> io::Result<()> {
        // Each is opened again by its next line.
        if self.slots.len() >= OPEN {
            self.slots.clear();
        }
        if !self.slots.contains_key(name) {
            let file = Rotated::new(self.dir.join(name), self.rotate);
            self.slots.insert(name.to_owned(), file);
        }
        self.slots.get_mut(name).map_or(Ok(()), |slot| slot.write(bytes))
    }

    /// Opens a file; one that was closed too early is opened again.
    fn open(&mut self, path: &Path) -> io::Result<Opened> {
        if self.open >= OPEN {
            self.close_all();
        }
        Opened::at(path, self.indexed).or_else(|error| match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) if self.open > 0 || !self.slots.is_empty() => {
                self.close_all();
                Opened::at(path, self.indexed)
            }
            Some(_) | None => Err(error),
        })
    }

    fn close_all(&mut self) {
        self.attempts.values_mut().for_each(|attempt| attempt.file = None);
        self.slots.clear();
        self.open = 0;
    }

    fn note(&mut self, lost: &[u8], result: io::Result<()>, path: impl Fn(&Writer) -> PathBuf) {
        self.shared.lost(lost.len() as u64);
        match result {
            Ok(()) if self.failed.is_none() => {}
            Ok(()) => self.mended(),
            Err(error) => {
                let path = path(self);
                self.shared.failed(&path, &error);
                self.failed = Some((path, clock::now() + PROBE));
            }
        }
    }

    /// Tries the failed path without waiting for output, as none may come for long.
    fn probe(&mut self) {
        let Some((path, at)) = &mut self.failed else { return };
        if *at > clock::now() {
            return;
        }
        *at = clock::now() + PROBE;
        // A slot's file may be a link of the administrator's; a job's is not written through one.
        let way = if path.parent() == Some(&self.dir) { 0 } else { libc::O_NOFOLLOW };
        if has_room(path, way).is_ok() {
            self.mended();
        }
    }

    fn mended(&mut self) {
        self.failed = None;
        self.shared.mended();
    }

    /// Does a step of removing old files, if that is due.
    fn tidy(&mut self) {
        let now = clock::now();
        if self.shelf.wait(now) == Duration::ZERO {
            // Files that are still written to are never removed.
            let written: HashSet<PathBuf> = self.attempts.keys().map(|job| (self.job)(job)).collect();
            self.shelf.step(now, Millis(clock::wall_millis()), &written);
        }
        self.shared.uses(self.shelf.used());
    }
}

impl Opened {
    fn at(path: &Path, indexed: Millis) -> io::Result<Opened> {
        make_parent(path)?;
        // Not through a link: somebody who puts one here would have us write where it leads.
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path)?;
        let (len, index) = (file.metadata()?.len(), Index::of(path, &file, indexed)?);
        Ok(Opened { file, len, index })
    }
}

fn make_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => fs::DirBuilder::new().recursive(true).mode(0o700).create(parent),
        None => Ok(()),
    }
}

/// Checks that the file can be opened this way (flags) and written to, and that the disk takes a page beside it.
fn has_room(path: &Path, way: i32) -> io::Result<()> {
    make_parent(path)?;
    match OpenOptions::new().append(true).custom_flags(way).open(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => {}
    }
    let probe = path.with_extension("probe");
    let result = write_private(&probe, [0; 4096]);
    fs::remove_file(&probe).ok();
    result
}
