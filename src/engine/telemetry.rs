//! Writes how long tasks took and how many wait to files (`wq.telemetry_dir`). A thread writes them; the loop never
//! waits for it.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use uuid::Uuid;

use super::attempts::Ran;
use broker::{Broker, Complaints};
use wq::{Sample, Settings, Sheet, TaskStatus};

/// What fails, in complaints.
const LOST: &str = "failed to write telemetry, its samples are lost";

/// The subject of a sample.
#[derive(Clone, Copy)]
enum Kind {
    Duration,
    Gauge,
}

/// The files of one supervisor.
pub(super) struct Telemetry {
    /// Sends samples to the thread; `None` ends it.
    samples: Sender<Option<(Kind, Sample)>>,
    writer: Option<JoinHandle<()>>,
}

impl Telemetry {
    /// Starts the thread, and counts the waiting tasks once a second.
    pub(super) fn start(dir: &Path, tasks: Arc<Settings>, broker: Arc<Broker>) -> io::Result<Telemetry> {
        DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(|error| {
            let why = format!("failed to make wq.telemetry_dir {}: {error}", dir.display());
            io::Error::new(error.kind(), why)
        })?;
        let (samples, written) = channel();
        let (dir, wrong) = (dir.to_owned(), broker.complaints().clone());
        let writer =
            Builder::new().name("telemetry".into()).spawn(move || write_all(&dir, &written, &wrong))?;
        tokio::spawn(count(samples.clone(), tasks, broker));
        Ok(Telemetry { samples, writer: Some(writer) })
    }

    /// An attempt is over.
    pub(super) fn ran(&self, ran: &Ran) {
        let label = format!("task: {}", ran.class);
        let sample = Sample { at: wall_nanos(), value: ran.time.as_secs_f64(), label, pid: ran.pid };
        self.samples.send(Some((Kind::Duration, sample))).ok();
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.samples.send(None).ok();
        // The last samples are written before the process ends.
        if let Some(writer) = self.writer.take() {
            writer.join().ok();
        }
    }
}

fn wall_nanos() -> i128 {
    i128::from(clock::wall_millis()) * 1_000_000
}

/// Counts the waiting and running jobs in the queue of tasks, while the thread runs.
async fn count(samples: Sender<Option<(Kind, Sample)>>, tasks: Arc<Settings>, broker: Arc<Broker>) {
    const EVERY: Duration = Duration::from_secs(1);
    let label = format!("q:{}:size", tasks.queue);
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tick.tick().await;
        let Ok(queues) = broker.counts().await else { continue };
        let jobs = queues.get(&tasks.queue).map(|counts| &counts.jobs);
        let pending =
            jobs.into_iter().flatten().filter(|(state, _)| TaskStatus::of(**state) == TaskStatus::Pending);
        let value = pending.map(|(_, count)| *count).sum::<u64>() as f64;
        let sample = Sample { at: wall_nanos(), value, label: label.clone(), pid: std::process::id() as i32 };
        if samples.send(Some((Kind::Gauge, sample))).is_err() {
            return;
        }
    }
}

fn write_all(dir: &Path, samples: &Receiver<Option<(Kind, Sample)>>, wrong: &Complaints) {
    let mut sheets = [Sheet::default(), Sheet::default()];
    for (kind, sample) in samples.iter().map_while(|sample| sample) {
        if let Some(text) = sheets[kind as usize].add(&sample) {
            write(dir, kind, &text, wrong);
        }
    }
    let [durations, gauge] = sheets;
    for (kind, sheet) in [(Kind::Duration, durations), (Kind::Gauge, gauge)] {
        if let Some(text) = sheet.rest() {
            write(dir, kind, &text, wrong);
        }
    }
}

/// Writes a new file, which appears complete or not at all.
fn write(dir: &Path, kind: Kind, text: &str, wrong: &Complaints) {
    let name = match kind {
        Kind::Duration => "duration",
        Kind::Gauge => "gauge",
    };
    let unique = Uuid::now_v7().simple().to_string();
    let path: PathBuf = dir.join(format!("{name}-{unique}.csv"));
    let half = dir.join(format!(".{name}-{unique}.tmp"));
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&half)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&half, &path)
    };
    match written() {
        Ok(()) => wrong.well(LOST, clock::now()),
        // These samples are not written again, and the next file may be hours away.
        Err(error) => wrong.stands(LOST, &format!("{}: {error}", dir.display()), clock::now()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_samples_are_told_from_the_first_file_that_cannot_be_written_to_the_next_that_is() {
        let (dir, complaints) = (tempfile::tempdir().unwrap(), Complaints::default());
        let place = dir.path().join("telemetry");
        write(&place, Kind::Gauge, "1", &complaints);
        let told = complaints.told(clock::now());
        assert!(told.len() == 1 && told[0].how.contains("telemetry: No such file"), "{told:?}");
        std::fs::create_dir(&place).unwrap();
        write(&place, Kind::Gauge, "2", &complaints);
        assert!(complaints.told(clock::now()).is_empty());
    }
}
