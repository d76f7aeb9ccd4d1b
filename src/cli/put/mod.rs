//! `put`: one job, or one for each line, in batches and in constant memory. The arguments become a [`Form`].

mod data;
pub(super) mod form;

use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::fstat;

use self::form::Form;
use super::access::Access;
use super::access::named::all_named;
use super::access::putting::NotPut;
use super::args::Put;
use super::job::asked_logs::follow;
use super::job::wait::results;
use super::term::screen::{escaped, print};
use super::unserved::note_put;
use api::Queued;
use config::Config;
use failure::{Failure, exit};
use model::{Bytes, JobId, NewJob, Payload, PutNote};

/// Limit of the jobs in one batch.
const BATCH: usize = 500;
/// Bytes of one batch, approximately.
const BATCH_BYTES: usize = 4 << 20;

/// Puts the jobs that were typed.
pub(super) async fn put(config: &Config, args: Put) -> Result<u8, Failure> {
    let mut form = Form::of(&args)?;
    let access = Access::open_or_make(config).await?;
    // Refused before anything is put: afterwards the jobs would run with nobody waiting.
    if args.wait {
        access.require_waits().await?;
    }
    form.depends_on(all_named(&access, &args.depends).await?);
    let batch = match args.lines && args.batch.is_none() && access.shows_batches().await? {
        true => Some(made_name()),
        false => None,
    };
    batch.iter().for_each(|name| form.join(name));
    let mut sink = Sink { batch, ..Sink::new(config, access, &args) };
    match args.lines {
        true => lines(&mut sink, &form, if args.null { 0 } else { b'\n' }).await?,
        false => sink.send(vec![form.job()]).await?,
    }
    // Before the wait, which may have no end for the reason that the note gives.
    sink.note().await;
    match sink.awaited.take() {
        Some(ids) if !ids.is_empty() => {
            let first =
                ids.first().filter(|_| !args.lines && !args.json && !args.command.is_empty()).cloned();
            with_output(config, first, results(config, ids, args.timeout, args.json)).await
        }
        Some(_) | None => Ok(exit::OK),
    }
}

/// A name for a batch that nobody has named.
fn made_name() -> String {
    // The beginning of an id is a time, its end is random.
    format!("lines-{}", &uuid::Uuid::now_v7().simple().to_string()[24..])
}

/// Waits for the end of jobs, and meanwhile shows the output of one as it comes.
async fn with_output(
    config: &Config,
    shown: Option<JobId>,
    end: impl Future<Output = Result<u8, Failure>>,
) -> Result<u8, Failure> {
    /// How long the last output may take after the end is known.
    const LAST: Duration = Duration::from_secs(2);
    let Some(id) = shown else { return end.await };
    let output = async {
        // That its output cannot be shown does not change how the job ends.
        if let Err(failure) = follow(config, &id).await
            && failure.code != exit::OK
        {
            eprintln!("note: {}", escaped(&failure.message));
        }
    };
    tokio::pin!(output, end);
    let code = tokio::select! {
        code = &mut end => code,
        () = &mut output => return end.await,
    };
    // After a timeout the job goes on, and so would its output.
    if code.as_ref().map_or_else(|failure| failure.code, |code| *code) != exit::TIMED_OUT {
        tokio::time::timeout(LAST, output).await.ok();
    }
    code
}

async fn lines(sink: &mut Sink<'_>, form: &Form, end: u8) -> Result<(), Failure> {
    // A buffer of our own, because that of `io::stdin` does not show whether it holds another line.
    let stdin = io::stdin();
    let mut input =
        BufReader::with_capacity(64 << 10, stdin.as_fd().try_clone_to_owned().map(std::fs::File::from)?);
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for number in 1_u64.. {
        // A slow writer has each line put at once; a fast one gets full batches.
        let full = batch.len() >= BATCH || bytes >= BATCH_BYTES;
        if full || (!input.buffer().contains(&end) && !is_readable(&stdin)) {
            sink.send(std::mem::take(&mut batch)).await?;
            bytes = 0;
        }
        let line = match read_line(&mut input, end) {
            Ok(Some(line)) => Ok(line),
            Ok(None) => break,
            Err(failure) => Err(failure),
        };
        match line.and_then(|line| form.filled(&line)) {
            Ok(None) => {}
            Ok(Some(job)) => {
                bytes += weight(&job);
                batch.push(job);
            }
            // The lines before it are put, as earlier batches were, so that the user goes on at this line.
            Err(failure) => {
                sink.send(batch).await?;
                let queued = sink.acknowledged;
                return Err(failure
                    .of(format!("failed to put line {number} of stdin; jobs queued before it: {queued}")));
            }
        }
    }
    sink.send(batch).await
}

/// The next line without its end; `None` after the last one.
fn read_line(input: &mut impl BufRead, end: u8) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    // A line without an end must not fill the memory.
    let read = input.take(Bytes::LONGEST as u64).read_until(end, &mut line)?;
    if line.last() == Some(&end) {
        line.pop();
    } else if read == Bytes::LONGEST {
        return Err(Failure::new(exit::FAILED, format!("it is longer than {} bytes", Bytes::LONGEST)));
    }
    Ok((read > 0).then_some(line))
}

/// Approximate size of a job in bytes.
fn weight(job: &NewJob) -> usize {
    let carried = match &job.payload {
        Payload::Exec(exec) => exec.stdin.0.len() + exec.argv.iter().map(|word| word.0.len()).sum::<usize>(),
        Payload::Data(data) => data.0.len(),
    };
    // 256 for everything beside the data.
    256 + carried
}

fn is_readable(stdin: &io::Stdin) -> bool {
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    // An error counts as readable: the read that follows reports it.
    poll(&mut fds, PollTimeout::ZERO) != Ok(0)
}

/// Whether a stream was closed when this process began: then it is also open for reading, unlike a redirection to
/// /dev/null.
fn leads_nowhere(stream: impl AsFd) -> bool {
    const NULL: u64 = nix::sys::stat::makedev(1, 3);
    let both = |flags| OFlag::from_bits_retain(flags) & OFlag::O_ACCMODE == OFlag::O_RDWR;
    let is_null = fstat(&stream).is_ok_and(|found| found.st_rdev == NULL);
    is_null && fcntl(&stream, FcntlArg::F_GETFL).is_ok_and(both)
}

/// Puts jobs and prints their ids.
struct Sink<'a> {
    config: &'a Config,
    access: Access,
    typed: &'a Put,
    /// The batch of its lines, where a name was made for it.
    batch: Option<String>,
    /// Whether that name has to stay away from the jobs.
    is_unnamed: bool,
    /// Jobs to wait for, if any.
    awaited: Option<Vec<JobId>>,
    /// Whether the reader of the ids has gone; the jobs must still be put.
    deaf: bool,
    acknowledged: usize,
    /// The first job that was put.
    first: Option<JobId>,
    /// That job, and what keeps it from running, as far as the supervisor knows.
    sample: Option<(NewJob, Vec<PutNote>)>,
}

impl<'a> Sink<'a> {
    fn new(config: &'a Config, access: Access, typed: &'a Put) -> Self {
        let awaited = typed.wait.then(Vec::new);
        let (batch, first, sample, acknowledged) = Default::default();
        let (is_unnamed, deaf) = (false, false);
        Sink { config, access, typed, batch, is_unnamed, awaited, deaf, acknowledged, first, sample }
    }

    /// Puts jobs. A name that nobody has asked for must not be why they are refused: a route may lead to a broker whose
    /// messages have no room for it.
    async fn put(&mut self, mut jobs: Vec<NewJob>) -> Result<Queued, NotPut> {
        if self.is_unnamed {
            strip(&mut jobs);
        }
        let again = (self.batch.is_some() && self.acknowledged == 0).then(|| jobs.clone());
        match (self.access.put(self.config, jobs).await, again) {
            (Err(refused), Some(mut jobs)) if refused.is_refusal() => {
                strip(&mut jobs);
                // Before the put: if it fails, the lines of what was put all the same must not name it.
                (self.batch, self.is_unnamed) = (None, true);
                self.access.put(self.config, jobs).await.map_err(|again| telling(refused, again))
            }
            (answer, _) => answer,
        }
    }

    async fn send(&mut self, jobs: Vec<NewJob>) -> Result<(), Failure> {
        let count = jobs.len();
        let Some(first) = jobs.first() else { return Ok(()) };
        // One is enough for the note, and the batch is about to be moved.
        let sample = self.sample.is_none().then(|| first.clone());
        let Queued { ids, notes, .. } = match self.put(jobs).await {
            Ok(queued) => queued,
            Err(not_put) => return Err(self.refused(count, not_put)),
        };
        self.acknowledged += count;
        if let Some(awaited) = &mut self.awaited {
            awaited.extend(ids.iter().cloned());
        }
        self.first = self.first.take().or_else(|| ids.first().cloned());
        match self.tell(ids.iter().map(Fate::Put)) {
            Err(unread) if unread.code == exit::OK => self.deaf = true,
            Err(failure) => return Err(failure.of("failed to print the ids").hint(self.in_words())),
            Ok(()) => {}
        }
        self.sample = self.sample.take().or_else(|| Some((sample?, notes)));
        Ok(())
    }

    /// What became of jobs that were not put, or not all of them. Prints a line for each of those then.
    fn refused(&mut self, count: usize, NotPut { failure, put, in_doubt }: NotPut) -> Failure {
        let before = self.acknowledged;
        self.acknowledged += put.iter().flatten().count();
        self.first = self.first.take().or_else(|| put.iter().flatten().next().cloned());
        // That the ids cannot be printed matters less: the failure names them.
        let fates = put.iter().enumerate().map(|(number, id)| match id {
            Some(id) => Fate::Put(id),
            None if in_doubt.contains(&number) => Fate::InDoubt,
            None => Fate::Refused,
        });
        self.tell(fates).ok();
        let what = if count == 1 { "the job".to_string() } else { format!("{count} jobs") };
        match before {
            0 => failure.of(format!("failed to put {what}")),
            before => failure.of(format!("failed to put {what} after {before} that are queued")),
        }
    }

    /// Once all are put, prints what keeps the jobs from running: all jobs of a put have one queue and one directory.
    async fn note(&self) {
        let (Some(first), Some((sample, notes))) = (&self.first, &self.sample) else { return };
        if leads_nowhere(io::stdout()) {
            eprintln!("note: stdout is closed or /dev/null: {}", self.in_words());
        }
        if let Some(batch) = self.batch.as_ref().filter(|_| io::stderr().is_terminal()) {
            eprintln!("batch {batch}: taskvisor batch wait {batch}");
        }
        note_put(self.config, &self.access, self.typed, (first, sample), notes).await;
    }

    /// What was put, for a user who did not get all ids and might put the jobs again.
    fn in_words(&self) -> String {
        let first = self.first.as_ref().map_or("", JobId::as_str);
        match self.acknowledged {
            1 => format!("the job is queued as {first}: it need not be put again"),
            many => format!("{many} jobs are queued, the first is {first}: put only what comes after them"),
        }
    }

    /// Prints a line for each job.
    fn tell<'b>(&self, fates: impl Iterator<Item = Fate<'b>>) -> Result<(), Failure> {
        if self.awaited.is_some() {
            // With --wait, stdout belongs to the results.
            fates.filter_map(Fate::id).for_each(|id| eprintln!("queued as {}", escaped(id.as_str())));
            return Ok(());
        }
        if self.deaf {
            return Ok(());
        }
        let mut text = String::new();
        for fate in fates {
            text += &fate.line(self.typed.json, self.batch.as_deref());
            text.push('\n');
        }
        print(&text)
    }
}

/// The failure that says what became of jobs: of two refusals the first, which is of what the user has typed. Else the
/// second try may have put some.
fn telling(refused: NotPut, again: NotPut) -> NotPut {
    if again.is_refusal() { refused } else { again }
}

/// Takes away from jobs the batch that was added last.
fn strip(jobs: &mut [NewJob]) {
    jobs.iter_mut().for_each(|job| _ = job.tags.pop());
}

/// What became of one job of a put.
enum Fate<'a> {
    Put(&'a JobId),
    Refused,
    /// Its broker has not answered.
    InDoubt,
}

impl<'a> Fate<'a> {
    fn id(self) -> Option<&'a JobId> {
        match self {
            Fate::Put(id) => Some(id),
            Fate::Refused | Fate::InDoubt => None,
        }
    }

    /// Its line, with the batch whose name was made: the id, nothing for a job that was not put, `?` where that is not known.
    fn line(self, json: bool, batch: Option<&str>) -> String {
        match (self, json) {
            (Fate::Put(id), true) if batch.is_some() => {
                serde_json::json!({ "id": id, "batch": batch }).to_string()
            }
            (Fate::InDoubt, true) => serde_json::json!({ "id": null, "in_doubt": true }).to_string(),
            (Fate::InDoubt, false) => "?".to_owned(),
            (fate, true) => serde_json::json!({ "id": fate.id() }).to_string(),
            (fate, false) => fate.id().map(JobId::to_string).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_try_that_may_have_put_jobs_is_what_fails_and_not_the_refusal_before_it() {
        let failed = |why: &str, put, in_doubt| NotPut {
            failure: Failure::new(exit::FAILED, why.to_owned()),
            put,
            in_doubt,
        };
        let refused = || failed("no room", vec![None, None], Vec::new());
        let again = |put, in_doubt| telling(refused(), failed("again", put, in_doubt)).failure.message;
        assert_eq!(again(vec![Some(JobId::from("a")), None], Vec::new()), "again");
        assert_eq!(again(vec![None, None], vec![1]), "again");
        assert_eq!(again(Vec::new(), Vec::new()), "again", "it is not known what became of them");
        assert_eq!(again(vec![None, None], Vec::new()), "no room");
    }

    #[test]
    fn job_that_was_refused_and_one_without_an_answer_have_different_lines() {
        let id = JobId::from("a");
        let lines = |json| [Fate::Put(&id), Fate::Refused, Fate::InDoubt].map(|fate| fate.line(json, None));
        assert_eq!(lines(false), ["a", "", "?"]);
        assert_eq!(lines(true), [r#"{"id":"a"}"#, r#"{"id":null}"#, r#"{"id":null,"in_doubt":true}"#]);
    }
}
