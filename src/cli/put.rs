//! `put`: one job, or one for each line, in batches and in constant memory.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::access::Access;
use super::args::Put;
use super::exit;
use super::failure::Failure;
use crate::config::Config;
use crate::model::{Bytes, Class, Exec, JobId, NewJob, Payload, Retry};

/// Jobs in one batch, at most.
const BATCH: usize = 500;
/// Bytes in one batch, about.
const BATCH_BYTES: usize = 4 << 20;
/// What a job may carry: as base64, and in a batch of its own, it fits the API's limit.
const LONGEST: usize = 40 << 20;

/// Queues what was typed.
pub async fn put(config: &Config, args: Put) -> Result<u8, Failure> {
    let template = template(&args)?;
    let access = Access::open(config).await?;
    let mut sink = Sink { config, access, json: args.json, deaf: false, acknowledged: 0 };
    if !args.lines {
        sink.send(vec![template]).await?;
        return Ok(exit::OK);
    }
    lines(&mut sink, &template, if args.null { 0 } else { b'\n' }).await?;
    Ok(exit::OK)
}

async fn lines(sink: &mut Sink<'_>, template: &NewJob, end: u8) -> Result<(), Failure> {
    let stdin = io::stdin();
    let mut input =
        BufReader::with_capacity(64 << 10, stdin.as_fd().try_clone_to_owned().map(std::fs::File::from)?);
    let (mut batch, mut bytes) = (Vec::new(), 0);
    loop {
        // Whoever writes slowly gets each line queued at once; whoever writes fast gets full batches.
        let full = batch.len() >= BATCH || bytes >= BATCH_BYTES;
        if !batch.is_empty() && (full || (!input.buffer().contains(&end) && !is_readable(&stdin))) {
            sink.send(std::mem::take(&mut batch)).await?;
            bytes = 0;
        }
        let mut line = Vec::new();
        let read = (&mut input).take(LONGEST as u64).read_until(end, &mut line).map_err(|error| {
            Failure::from(error).of(format!("failed to read stdin after {} jobs", sink.acknowledged))
        })?;
        if read == 0 {
            break;
        }
        if line.last() == Some(&end) {
            line.pop();
        } else if read == LONGEST {
            return Err(Failure::new(
                exit::FAILED,
                format!("a line of stdin is longer than {LONGEST} bytes"),
            ));
        }
        if line.is_empty() {
            continue;
        }
        let job = filled(template, &line);
        bytes += weight(&job);
        batch.push(job);
    }
    if !batch.is_empty() {
        sink.send(batch).await?;
    }
    Ok(())
}

/// About how many bytes a job is.
fn weight(job: &NewJob) -> usize {
    let carried = match &job.payload {
        Payload::Exec(exec) => exec.stdin.0.len() + exec.argv.iter().map(|word| word.0.len()).sum::<usize>(),
        Payload::Data(data) => data.0.len(),
    };
    256 + carried
}

fn is_readable(stdin: &io::Stdin) -> bool {
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO) != Ok(0)
}

/// Where jobs go and their ids come out.
struct Sink<'a> {
    config: &'a Config,
    access: Access,
    json: bool,
    /// Nobody reads the ids any more; the jobs are still to be put.
    deaf: bool,
    acknowledged: usize,
}

impl Sink<'_> {
    async fn send(&mut self, jobs: Vec<NewJob>) -> Result<(), Failure> {
        let count = jobs.len();
        let ids = self.access.put(self.config, jobs).await.map_err(|failure| {
            let what = if count == 1 { "the job".to_string() } else { format!("{count} jobs") };
            match self.acknowledged {
                0 => failure.of(format!("failed to put {what}")),
                before => failure.of(format!("failed to put {what} after {before} that are queued")),
            }
        })?;
        self.acknowledged += count;
        match self.tell(&ids) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.deaf = true,
            told => told?,
        }
        Ok(())
    }

    fn tell(&self, ids: &[JobId]) -> io::Result<()> {
        if self.deaf {
            return Ok(());
        }
        let mut text = String::new();
        for id in ids {
            match self.json {
                true => text += &(serde_json::json!({ "id": id }).to_string() + "\n"),
                false => text += &(id.to_string() + "\n"),
            }
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// The job as typed; with `--lines` the braces are still in it.
fn template(args: &Put) -> Result<NewJob, Failure> {
    let stdin = match &args.data {
        Some(data) => data_of(data, args.lines)?,
        None => Bytes::default(),
    };
    let mut argv: Vec<Bytes> = args.command.iter().map(|word| Bytes::from(word.clone())).collect();
    if args.lines && !argv.iter().any(|word| has_braces(&word.0)) {
        argv.push("{}".into());
    }
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::from(error).of("failed to find the working directory for the job"))?;
    let exec = Exec { argv, cwd: Bytes(cwd.into_os_string().into_vec()), umask: umask()?, stdin };
    Ok(NewJob {
        id: args.jid.as_deref().map(JobId::from),
        queue: args.queue.as_str().into(),
        class: Class::EXEC.into(),
        payload: Payload::Exec(exec),
        priority: args.priority,
        delay: args.delay.unwrap_or(Duration::ZERO),
        tags: args.tags.clone(),
        retry: args.retries.map(retry),
        time_limit: args.time_limit,
    })
}

/// A command that is to be tried again waits as a class does.
fn retry(retries: u32) -> Retry {
    Retry { retries, ..Retry::CLASS }
}

fn data_of(data: &OsStr, lines: bool) -> Result<Bytes, Failure> {
    let bytes = data.as_bytes();
    let read = match bytes {
        b"-" if lines => {
            return Err(Failure::new(exit::USAGE, "--lines and -d - both want to read stdin")
                .hint("give the data as -d DATA or -d @FILE"));
        }
        b"-" => read_limited(io::stdin().lock(), "stdin"),
        [b'@', path @ ..] => {
            let path = OsString::from_vec(path.to_vec());
            let name = path.to_string_lossy().into_owned();
            let failed = |error| Failure::from(error).of(format!("failed to read the data from {name}"));
            read_limited(std::fs::File::open(&path).map_err(failed)?, &name)
        }
        data => Ok(data.to_vec()),
    };
    read.map(Bytes)
}

fn read_limited(from: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut data = Vec::new();
    let limit = LONGEST as u64 + 1;
    let failed = |error| Failure::from(error).of(format!("failed to read the data from {name}"));
    from.take(limit).read_to_end(&mut data).map_err(failed)?;
    match data.len() > LONGEST {
        true => Err(Failure::new(exit::FAILED, format!("the data in {name} is larger than {LONGEST} bytes"))
            .hint("put the name of a file as an argument")),
        false => Ok(data),
    }
}

/// Read from /proc, for `umask` itself can only be asked by setting it.
fn umask() -> Result<u32, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| Failure::from(error).of("failed to find the umask in /proc/self/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok())
        .ok_or_else(|| Failure::new(exit::IO, "failed to find the umask in /proc/self/status"))
}

fn has_braces(word: &[u8]) -> bool {
    word.windows(2).any(|pair| pair == b"{}")
}

fn filled(template: &NewJob, line: &[u8]) -> NewJob {
    let mut job = template.clone();
    if let Payload::Exec(exec) = &mut job.payload {
        for word in &mut exec.argv {
            if has_braces(&word.0) {
                word.0 = replaced(&word.0, line);
            }
        }
    }
    job
}

fn replaced(word: &[u8], line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len() + line.len());
    let mut rest = word;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"{}") {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(line);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_the_line_wherever_they_stand() {
        assert_eq!(replaced(b"a{}b{}", b"\xff "), b"a\xff b\xff ");
        assert_eq!(replaced(b"{", b"x"), b"{");
        assert_eq!(replaced(b"{}", b"{}"), b"{}");
    }

    #[test]
    fn the_umask_is_that_of_the_process() {
        assert!(umask().unwrap() <= 0o777);
    }
}
