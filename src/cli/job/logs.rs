//! `job logs`: the output of a job so far, and as it is written.

use std::borrow::Cow;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, IsTerminal, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::sync::mpsc;

use super::lens::Lens;
use super::tail::Tail;
use crate::cli::access::elsewhere::only_here;
use crate::cli::access::hosts::Hosts;
use crate::cli::access::{Access, ended};
use crate::cli::args::JobLogs;
use crate::cli::term::screen::{Look, escaped_lines, print, print_bytes};
use config::{Config, logs as logs_of};
use failure::{Failure, exit};
use log::removed_until;
use model::{Happened, Instance, JobId, JobRecord, JobState, Millis};

/// Milliseconds by which the store's clock and that of the files may differ, generously.
const CLOCKS_APART: i64 = 60_000;

/// Pause between two looks whether another host runs the job.
const LOOK: Duration = Duration::from_secs(2);

/// Pause between two looks at the file where inotify is refused.
const UNWATCHED: Duration = Duration::from_millis(250);

/// Prints the output of a job. A job without output has no file, and neither has one whose output was removed.
pub async fn logs(config: &Config, args: &JobLogs) -> Result<u8, Failure> {
    only_here(config, "to read the output of a job")?;
    let access = Access::open(config).await?;
    let id = access.named(&args.jid).await?;
    let mut job = access.job(&id).await?;
    let path = config.log_file(&id);
    let lens = Lens::new(config, &id, args);
    let mut output = Output {
        path,
        lens,
        tail: args.tail.map(Tail::new),
        file: None,
        found: false,
        tty: io::stdout().is_terminal(),
        cut: Vec::new(),
    };
    if args.follow && !job.state.has_ended() {
        follow(config, &id, &mut output).await?;
        // As it is by now: another host may have taken it meanwhile.
        job = Access::open(config).await?.job(&id).await?;
    }
    // After the wait, during which this attempt may have begun.
    if let Some(attempt) = args.attempt {
        has_attempt(&job, attempt)?;
    }
    output.copy()?;
    output.finish()?;
    if let Some(instance) = elsewhere(config, &job) {
        return Err(of_another(&Access::open(config).await?, &job, instance).await);
    }
    let near = |until: &Millis| job.put_at.0 <= until.0 + CLOCKS_APART;
    let removed = removed_until(&logs_of(&config.state_dir)).filter(near);
    if let (Some(until), false) = (removed, output.found) {
        writeln!(io::stderr(), "{}", gone(until))?;
    }
    Ok(exit::OK)
}

/// Fails if the job has never had an attempt of this number.
fn has_attempt(job: &JobRecord, attempt: u32) -> Result<(), Failure> {
    let ended = job.history.iter().filter_map(|entry| match &entry.what {
        Happened::Attempt(attempt) => Some(attempt.attempt),
        Happened::Canceled { .. } | Happened::Retried { .. } => None,
        Happened::Edited { .. } | Happened::Advanced { .. } | Happened::Noted { .. } => None,
    });
    let last = ended.chain([job.attempt]).max().unwrap_or_default();
    if attempt <= last {
        return Ok(());
    }
    let what = format!("job {} has no attempt {attempt}: it has had {last}", job.id);
    Err(Failure::new(exit::NOTHING_MATCHED, what))
}

/// The supervisor of the latest attempt, if it is another than that of this state directory: the output is there.
fn elsewhere<'a>(config: &Config, job: &'a JobRecord) -> Option<&'a Instance> {
    let ours = match fs::read_to_string(config.state_dir.join("instance")) {
        Ok(name) => Some(name),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        // Without our own name nothing is known: the output is looked for here.
        Err(_) => return None,
    };
    job.instance.as_ref().filter(|theirs| ours.is_none_or(|ours| ours.trim() != theirs.as_str()))
}

async fn of_another(access: &Access, job: &JobRecord, instance: &Instance) -> Failure {
    let place = Hosts::of(access).await.place(instance);
    let ran = if job.state.has_ended() { "ran" } else { "runs" };
    let what = format!("the output of job {} is not here: attempt {} {ran} by {place}", job.id, job.attempt);
    let hint = format!("output stays on the host that ran the job: taskvisor job logs {} there", job.id);
    Failure::new(exit::FAILED, what).hint(hint)
}

fn gone(until: Millis) -> String {
    format!(
        "output written before {} was removed (log.keep, log.quota); this job has none that is newer",
        Look::of_stdout(false).moment(until)
    )
}

/// Copies new output until the job has ended, or another supervisor runs it.
async fn follow(config: &Config, id: &JobId, output: &mut Output) -> Result<(), Failure> {
    let mut changes = watch(&output.path)?;
    let end = ended(config, id);
    let away = away(config, id);
    tokio::pin!(end, away);
    loop {
        // Also before the first wait: the watch is set, so nothing is missed in between.
        output.copy()?;
        tokio::select! {
            ended = &mut end => return ended.map(drop),
            is_away = &mut away => return is_away,
            _ = changes.recv() => {}
        }
    }
}

/// Waits until another supervisor runs the job; if none can, for ever.
async fn away(config: &Config, id: &JobId) -> Result<(), Failure> {
    loop {
        // While the store does not answer, it is not known whether it is shared.
        match Hosts::look(&Access::open(config).await?).await {
            Ok(hosts) if hosts.shared => break,
            Ok(_) => std::future::pending::<()>().await,
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
    loop {
        // The wait for the job's end reports errors.
        if let Ok(job) = Access::open(config).await?.job(id).await
            && matches!(job.state, JobState::Running | JobState::Canceling)
            && elsewhere(config, &job).is_some()
        {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Watches the directory, as the file may not exist yet.
fn watch(file: &Path) -> Result<mpsc::Receiver<()>, Failure> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    let attempted = || format!("failed to watch {}", dir.display());
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| Failure::from(error).of(attempted()))?;
    let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVED_TO;
    let watched = Inotify::init(InitFlags::IN_CLOEXEC)
        .and_then(|inotify| inotify.add_watch(dir, flags).map(|_| inotify));
    let (changed, changes) = mpsc::channel(1);
    // The thread ends with this process. One unread note is as good as many. Without inotify it has the file read again and
    // again.
    std::thread::spawn(move || {
        loop {
            match &watched {
                Ok(inotify) if inotify.read_events().is_ok() => {}
                Ok(_) => return,
                Err(_) => std::thread::sleep(UNWATCHED),
            }
            let _ = changed.try_send(());
        }
    });
    Ok(changes)
}

struct Output {
    path: PathBuf,
    lens: Option<Lens>,
    /// The last lines so far, until the end was reached once; None = all is printed.
    tail: Option<Tail>,
    file: Option<File>,
    /// Whether there ever was a file.
    found: bool,
    tty: bool,
    /// The beginning of a character whose end has not come yet.
    cut: Vec<u8>,
}

impl Output {
    /// Copies what was added since the last time. A removed file is read to its end, and then the next of its name.
    fn copy(&mut self) -> Result<(), Failure> {
        self.read_on()?;
        if self.file.as_ref().is_some_and(|file| file.metadata().is_ok_and(|found| found.nlink() == 0)) {
            self.file = None;
        }
        if self.file.is_none() {
            self.file = match File::open(&self.path) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(self.unread(error)),
            };
            self.found = true;
            self.read_on()?;
        }
        if let Some(tail) = self.tail.take() {
            self.show(&tail.kept)?;
        }
        Ok(())
    }

    fn show(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.tty {
            self.cut.extend_from_slice(bytes);
            print(&shown(&mut self.cut))
        } else {
            print_bytes(bytes)
        }
    }

    fn read_on(&mut self) -> Result<(), Failure> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let (offset, read) = self.read(&mut buffer).map_err(|error| self.unread(error))?;
            if read == 0 {
                return Ok(());
            }
            let chosen = match &mut self.lens {
                Some(lens) => Cow::from(lens.show(offset, &buffer[..read])?),
                None => Cow::from(&buffer[..read]),
            };
            match &mut self.tail {
                Some(tail) => tail.push(&chosen),
                None => self.show(&chosen)?,
            }
        }
    }

    /// The offset and the length of what was read.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<(u64, usize)> {
        let Some(file) = self.file.as_mut() else { return Ok((0, 0)) };
        // The file was emptied: its present content is new.
        if file.metadata()?.len() < file.stream_position()? {
            file.rewind()?;
        }
        let offset = file.stream_position()?;
        loop {
            match file.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return Ok((offset, read?)),
            }
        }
    }

    fn unread(&self, error: io::Error) -> Failure {
        Failure::from(error).of(format!("failed to read the output in {}", self.path.display()))
    }

    /// Writes the bytes that never became a character.
    fn finish(&self) -> Result<(), Failure> {
        if let Some(remark) = self.lens.as_ref().and_then(Lens::remark) {
            writeln!(io::stderr(), "{remark}")?;
        }
        print(&escaped_lines(&String::from_utf8_lossy(&self.cut)))
    }
}

/// Takes whole characters from the front and escapes them for a terminal.
fn shown(bytes: &mut Vec<u8>) -> String {
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        // There is a wrong byte before the end. A cut character at the very end is then shown as wrong too, which is
        // rare and harmless.
        Ok(_) | Err(_) => bytes.len(),
    };
    let text = escaped_lines(&String::from_utf8_lossy(&bytes[..whole]));
    bytes.drain(..whole);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn character_split_across_reads_is_shown_whole() {
        let mut bytes = b"a\x1b\xc3".to_vec();
        assert_eq!(shown(&mut bytes), "a\\x1b");
        bytes.push(0xa9);
        assert_eq!(shown(&mut bytes), "é");
        bytes.extend(b"\xff\n");
        assert_eq!(shown(&mut bytes), "\u{fffd}\n");
    }
}
