//! `job logs`: the output of a job so far, and as it is written.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use log::{Reader, removed_since};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::sync::mpsc;

use super::asked_logs;
use super::lens::{Lens, selection};
use super::list::must_be_known;
use crate::cli::access::elsewhere::shares_state;
use crate::cli::access::hosts::Hosts;
use crate::cli::access::listing::all;
use crate::cli::access::{Access, ended, for_each};
use crate::cli::args::JobLogs;
use crate::cli::batch::filter;
use crate::cli::term::screen::Look;
use config::{Config, logs as logs_of};
use failure::{Failure, exit};
use model::{Happened, Instance, JobId, JobRecord, JobState, Millis};

/// Pause between two looks whether another host runs the job.
const LOOK: Duration = Duration::from_secs(2);

/// Pause between two looks at the file where inotify is refused.
const UNWATCHED: Duration = Duration::from_millis(250);

/// Prints the output of a job. A job without output has no file, and neither has one whose output was removed.
///
/// It is read from its file where that can be read, also while no supervisor runs; else the supervisor is asked for it.
pub(super) async fn logs(config: &Config, args: &JobLogs) -> Result<u8, Failure> {
    let access = Access::open(config).await?;
    if let Some(jid) = &args.jid {
        let id = access.named(jid).await?;
        return one(config, access, id, args).await.map(|()| exit::OK);
    }
    let batch = filter(args.batch.as_deref().unwrap_or_default());
    let ids = all(config, batch.clone()).await?;
    if ids.is_empty() {
        must_be_known(config, &batch).await?;
    }
    for_each(ids, async |id| one(config, Access::open(config).await?, id, args).await).await
}

/// Prints the output of one job.
async fn one(config: &Config, access: Access, id: JobId, args: &JobLogs) -> Result<(), Failure> {
    let mut job = access.job(&id).await?;
    let mut lens = Lens::new(args);
    let asked = match access {
        Access::Api(client, _) if !shares_state(config) => {
            Some(asked_logs::print(config, client, &id, args, &mut lens).await?)
        }
        Access::Api(..) | Access::Store(_) | Access::Spool(_) => None,
    };
    let has_file = asked.is_none() && from_file(config, &job, args, &mut lens).await?;
    if args.follow {
        // As it is by now: another host may have taken it meanwhile.
        job = Access::open(config).await?.job(&id).await?;
    }
    // After the wait, during which this attempt may have begun.
    if let Some(attempt) = args.attempt {
        has_attempt(&job, attempt)?;
    }
    lens.finish()?;
    let (elsewhere, removed) = match asked {
        Some(end) => (end.elsewhere, end.removed_until),
        None => {
            let removed =
                (!has_file).then(|| removed_since(&logs_of(&config.state_dir), job.put_at)).flatten();
            (runs_elsewhere(config, &job).cloned(), removed)
        }
    };
    if let Some(instance) = elsewhere {
        return Err(of_another(&Access::open(config).await?, &job, &instance).await);
    }
    if let Some(until) = removed {
        writeln!(io::stderr(), "{}", gone(until))?;
    }
    Ok(())
}

/// Prints the output in its file; gives whether there was one.
async fn from_file(
    config: &Config,
    job: &JobRecord,
    args: &JobLogs,
    lens: &mut Lens,
) -> Result<bool, Failure> {
    let path = config.log_file(&job.id);
    let mut reader = Reader::new(logs_of(&config.state_dir), path.clone());
    reader.select(selection(args), 0, None);
    let mut output = Output { path, reader, lens };
    if let Some(lines) = args.tail {
        output.reader.to_last_lines(lines).map_err(|error| output.unread(error))?;
    }
    if args.follow && !job.state.has_ended() {
        follow(config, &job.id, &mut output).await?;
    }
    output.copy()?;
    Ok(output.reader.found())
}

/// Fails if the job has never had an attempt of this number.
fn has_attempt(job: &JobRecord, attempt: u32) -> Result<(), Failure> {
    let ended = job.history.iter().filter_map(|entry| match &entry.what {
        Happened::Attempt(attempt) => Some(attempt.attempt),
        Happened::Canceled { .. } | Happened::Retried { .. } => None,
        Happened::Edited { .. } | Happened::Advanced { .. } | Happened::Noted { .. } => None,
    });
    // The history has no attempt that runs, nor one that has completed the job.
    let last = ended.chain([job.attempt]).max().unwrap_or_default();
    if attempt <= last {
        return Ok(());
    }
    let what = format!("job {} has no attempt {attempt}: it has had {last}", job.id);
    Err(Failure::new(exit::NOTHING_MATCHED, what))
}

/// The supervisor of the latest attempt, if it is another than that of this state directory: the output is there.
fn runs_elsewhere<'a>(config: &Config, job: &'a JobRecord) -> Option<&'a Instance> {
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
async fn follow(config: &Config, id: &JobId, output: &mut Output<'_>) -> Result<(), Failure> {
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
            && runs_elsewhere(config, &job).is_some()
        {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether this user owns what is there of the path. If root made a directory for another user's supervisor, that could
/// write no output into it.
fn is_below_ours(dir: &Path) -> bool {
    let owner = dir.ancestors().find_map(|dir| dir.metadata().ok()).map(|found| found.uid());
    owner == Some(nix::unistd::geteuid().as_raw())
}

/// Watches the directory, as the file may not exist yet.
fn watch(file: &Path) -> Result<mpsc::Receiver<()>, Failure> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    let attempted = || format!("failed to watch {}", dir.display());
    if is_below_ours(dir) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| Failure::from(error).of(attempted()))?;
    }
    let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVED_TO;
    let watched = Inotify::init(InitFlags::IN_CLOEXEC)
        .and_then(|inotify| inotify.add_watch(dir, flags).map(|_| inotify));
    let (changed, changes) = mpsc::channel(1);
    // The thread ends with this process. One unread note is as good as many. Without inotify, or a directory, it has the file
    // read again and again.
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

struct Output<'a> {
    path: PathBuf,
    reader: Reader,
    lens: &'a mut Lens,
}

impl Output<'_> {
    /// Prints what was added since the last time.
    fn copy(&mut self) -> Result<(), Failure> {
        while let Some(parts) = self.reader.next_parts().map_err(|error| self.unread(error))? {
            parts.iter().try_for_each(|part| self.lens.show(part.mark, &part.bytes))?;
        }
        Ok(())
    }

    fn unread(&self, error: io::Error) -> Failure {
        Failure::from(error).of(format!("failed to read the output in {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_makes_no_directory_for_the_output_of_another_user() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("logs/ab/job.log");
        std::os::unix::fs::chown(state.path(), Some(64_500), None).unwrap();
        watch(&file).unwrap();
        assert!(!state.path().join("logs").exists());
        std::os::unix::fs::chown(state.path(), Some(0), None).unwrap();
        watch(&file).unwrap();
        assert!(state.path().join("logs/ab").is_dir());
    }
}
