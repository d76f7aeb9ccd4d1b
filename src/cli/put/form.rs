//! The jobs of `put`: the job as it was typed, with blanks to fill from lines of stdin.

use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use super::data::{check_json, read};
use crate::cli::args::Put;
use crate::cli::args::batch::tag_of;
use crate::cli::args::put::USAGE;
use crate::cli::term::format::between;
use crate::cli::unserved::meant;
use failure::{Failure, exit};
use model::{Bytes, Class, Exec, JobId, NewJob, Payload, Retry};

/// A job with blanks for its lines.
pub(crate) struct Form {
    job: NewJob,
    /// Whether data may be other than JSON.
    raw: bool,
}

impl Form {
    /// Reads the arguments, and the data that they name.
    pub(crate) fn of(args: &Put) -> Result<Self, Failure> {
        let args = &args.placed();
        let (queue, class, payload) = match Kind::of(args)? {
            Kind::Command => {
                (args.commands_queue.as_deref().unwrap_or("default"), Class::EXEC, command(args)?)
            }
            Kind::Data { queue, class } => (queue, class, data(args)?),
        };
        let job = NewJob {
            id: args.jid.as_deref().map(JobId::from),
            exists: args.exists,
            token: None,
            queue: queue.into(),
            class: class.into(),
            payload,
            priority: args.priority,
            delay: delay(args),
            expires: args.expires,
            depends: args.depends.iter().map(|id| id.as_str().into()).collect(),
            // A batch is a tag: brokers know nothing of batches.
            tags: args.tags.iter().cloned().chain(args.batch.as_deref().map(tag_of)).collect(),
            retry: args.retries.map(retry),
            time_limit: args.time_limit,
            by: None,
        };
        Ok(Form { job, raw: args.raw })
    }

    /// Sets the jobs that it needs, by their whole ids.
    pub(crate) fn depends_on(&mut self, jobs: Vec<JobId>) {
        self.job.depends = jobs;
    }

    /// Puts the jobs into this batch, too.
    pub(crate) fn join(&mut self, name: &str) {
        self.job.tags.push(tag_of(name));
    }

    /// The job without blanks.
    pub(crate) fn job(self) -> NewJob {
        self.job
    }

    /// The job for one line; None for an empty line.
    pub(crate) fn filled(&self, line: &[u8]) -> Result<Option<NewJob>, Failure> {
        let mut job = self.job.clone();
        match &mut job.payload {
            Payload::Exec(_) if line.is_empty() => return Ok(None),
            Payload::Exec(exec) => exec
                .argv
                .iter_mut()
                .filter(|word| has_braces(&word.0))
                .for_each(|word| word.0 = replaced(&word.0, line)),
            Payload::Data(_) if line.is_empty() || (!self.raw && line.trim_ascii().is_empty()) => {
                return Ok(None);
            }
            Payload::Data(data) => {
                if !self.raw {
                    check_json(line, "it").map_err(on_one_line)?;
                }
                data.0 = line.to_vec();
            }
        }
        Ok(Some(job))
    }
}

/// The delay from now.
fn delay(args: &Put) -> Duration {
    let until = args.at.map(|at| between(clock::wall(), at));
    args.delay.or(until).unwrap_or(Duration::ZERO)
}

/// Without the position in the text: the caller names the line.
fn on_one_line(mut failure: Failure) -> Failure {
    failure.message = failure.message.replace(" at line 1 column ", " at column ");
    failure
}

/// The two ways to put.
enum Kind<'a> {
    Command,
    Data { queue: &'a str, class: &'a str },
}

impl<'a> Kind<'a> {
    fn of(args: &'a Put) -> Result<Self, Failure> {
        match (&args.queue, &args.class, args.command.is_empty()) {
            (None, _, true) => {
                Err(usage("there is nothing to put", format!("the two ways are {}", both_ways())))
            }
            (None, _, false) if args.raw => {
                Err(usage("--raw is about the data of a class, and this is a command", "leave it out"))
            }
            (None, _, false) => Ok(Kind::Command),
            (Some(queue), class, false) => Err(command_with_words(queue, class.as_deref())),
            (Some(queue), None, true) => Err(no_class(queue, args.commands_queue.as_deref())),
            (Some(queue), Some(class), true) => {
                check_data(args, queue, class)?;
                Ok(Kind::Data { queue, class })
            }
        }
    }
}

fn both_ways() -> String {
    USAGE.split_whitespace().collect::<Vec<_>>().join(" ").replacen("... taskvisor", "... and taskvisor", 1)
}

fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::new(exit::USAGE, message).hint(hint)
}

fn command_with_words(queue: &str, class: Option<&str>) -> Failure {
    let words = [Some(queue), class].into_iter().flatten().collect::<Vec<_>>().join(" ");
    usage(
        format!("a job is a command or has a class, and this has both: '{words}' stands before --"),
        format!(
            "a command of the queue '{queue}': taskvisor put -q {queue} -- COMMAND; data for a class: taskvisor put QUEUE CLASS DATA"
        ),
    )
}

fn no_class(word: &str, queue: Option<&str>) -> Failure {
    match queue {
        Some(queue) => usage(
            format!(
                "'{word}' stands alone: of a job with a class both queue and class are named, without -q"
            ),
            format!(
                "taskvisor put {queue} {word} DATA; a command stands behind --: taskvisor put -q {queue} -- {word}"
            ),
        ),
        None => usage(
            format!("the class of the job for the queue '{word}' is missing"),
            format!("taskvisor put {word} CLASS DATA; a command stands behind --: taskvisor put -- {word}"),
        ),
    }
}

fn check_data(args: &Put, queue: &str, class: &str) -> Result<(), Failure> {
    // Of three words one is missing, and the data has become the class.
    if args.data.is_none() && class.starts_with(['{', '[']) {
        let given = args.commands_queue.as_deref().unwrap_or("QUEUE");
        return Err(usage(
            format!("what stands behind '{queue}' is no class: it looks like data"),
            format!("taskvisor put {given} {queue} DATA"),
        ));
    }
    if let Some(other) = &args.commands_queue {
        return Err(usage(
            format!("two queues are named: '{queue}', and '{other}' by -q, which is for commands"),
            format!("taskvisor put {queue} {class} DATA"),
        ));
    }
    if class == Class::EXEC {
        return Err(usage(
            format!("the class '{class}' is that of commands: it has no data"),
            format!("taskvisor put -q {queue} -- COMMAND"),
        ));
    }
    if args.commands_stdin.is_some() {
        return Err(usage(
            "-d is what a command reads on stdin, and this job has a class",
            format!("its data stands behind the class: taskvisor put {queue} {class} DATA"),
        ));
    }
    // `-` names stdin, which --lines reads anyway.
    let named = args.data.as_deref().filter(|data| *data != "-");
    match named {
        Some(_) if args.lines => Err(usage(
            "there are two sources of data: each line of stdin by --lines, and what stands behind the class",
            format!("taskvisor put {queue} {class} --lines"),
        )),
        None if args.raw && !args.lines && args.data.is_none() => Err(usage(
            "--raw says how to take data, and there is none",
            "give it as DATA, @FILE, or - for stdin",
        )),
        Some(_) | None => Ok(()),
    }
}

/// The payload of a job with a class; with `--lines` the lines fill it.
fn data(args: &Put) -> Result<Payload, Failure> {
    let typed = match &args.data {
        // With --lines, stdin has the data of the jobs, and `-` says only that.
        Some(data) if !args.lines => data,
        Some(_) | None => return Ok(Payload::Data("null".into())),
    };
    let (data, name) = read(typed)?;
    if !args.raw {
        check_json(&data, &name)
            // `put echo hello` is a command without its `--` rather than data that is not JSON.
            .map_err(|failure| Failure { hint: meant(args).or(failure.hint.clone()), ..failure })?;
    }
    Ok(Payload::Data(Bytes(data)))
}

/// A command; with `--lines` it still contains the braces.
fn command(args: &Put) -> Result<Payload, Failure> {
    let stdin = match &args.commands_stdin {
        Some(data) if data == "-" && args.lines => {
            return Err(usage(
                "--lines and -d - both want to read stdin",
                "give the data as -d DATA or -d @FILE",
            ));
        }
        Some(data) => Bytes(read(data)?.0),
        None => Bytes::default(),
    };
    let mut argv: Vec<Bytes> = args.command.iter().map(|word| Bytes::from(word.clone())).collect();
    // As with xargs, the line comes last if no place for it is named.
    if args.lines && !argv.iter().any(|word| has_braces(&word.0)) {
        argv.push("{}".into());
    }
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::from(error).of("failed to find the working directory for the job"))?;
    let cwd = Bytes(cwd.into_os_string().into_vec());
    Ok(Payload::Exec(Exec { argv, cwd, umask: umask()?, stdin }))
}

/// A job that is retried, and sets nothing else, waits as a class does.
fn retry(retries: u32) -> Retry {
    Retry { retries, ..Retry::CLASS }
}

/// The umask from /proc: the system call can only read it by setting it.
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

fn replaced(word: &[u8], line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len() + line.len());
    let mut rest = word;
    // Only in what was typed: braces within the line are data.
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
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Args, Command};

    fn form(typed: &[&str]) -> Result<Form, Failure> {
        let Ok(Args { command: Command::Put(put), .. }) =
            Args::try_parse_from(["taskvisor", "put"].iter().chain(typed))
        else {
            panic!("{typed:?} cannot be typed")
        };
        Form::of(&put)
    }

    #[test]
    fn braces_are_replaced_by_the_line_everywhere() {
        assert_eq!(replaced(b"a{}b{}", b"\xff "), b"a\xff b\xff ");
        assert_eq!(replaced(b"{", b"x"), b"{");
        assert_eq!(replaced(b"{}", b"{}"), b"{}");
    }

    #[test]
    fn the_umask_is_that_of_the_process() {
        assert!(umask().unwrap() <= 0o777);
    }

    #[test]
    fn data_is_kept_as_typed() {
        let carried = |typed: &[&str]| match form(typed).map(Form::job) {
            Ok(NewJob { queue, class, payload: Payload::Data(data), .. }) => {
                format!("{queue} {class} {}", data.to_text())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(carried(&["mail", "Send"]), "mail Send null");
        assert_eq!(
            carried(&["mail", "Send", r#" {"a":  1, "a": 1e999}"#]),
            r#"mail Send  {"a":  1, "a": 1e999}"#
        );
        assert_eq!(carried(&["--raw", "mail", "Send", "{"]), "mail Send {");
        assert_eq!(carried(&["mail", "Send", "--retries", "2", "-5"]), "mail Send -5");
        assert_eq!(carried(&["--lines", "mail", "Send", "-"]), "mail Send null");
    }

    #[test]
    fn ambiguous_put_forms_are_refused_with_an_explanation() {
        let said: Vec<String> = [
            &[][..],
            &["mail"],
            &["-q", "x", "Send"],
            &["-q", "x", "mail", "Send"],
            &["Send", "{}"],
            &["-q", "x", "Send", "{}"],
            &["mail", "Send", "--", "sendmail"],
            &["gzip", "--", "-t", "a.gz"],
            &["mail", "exec", "{}"],
            &["mail", "Send", "-d", "{}"],
            &["--lines", "mail", "Send", "{}"],
            &["--raw", "mail", "Send"],
            &["--raw", "--", "true"],
            &["mail", "echo", "hello"],
            &["mail", "Send", "{\n  \"to\": 1,\n  to: 2\n}"],
            &["mail", "Send", "@/proc/self/none"],
        ]
        .into_iter()
        .map(|typed| {
            format!(
                "$ put {}\n{}",
                typed.join(" "),
                form(typed).err().map_or("taken\n".into(), |no| no.render())
            )
        })
        .collect();
        insta::assert_snapshot!("put_refusals", said.join("\n"));
    }

    #[test]
    fn line_of_stdin_is_kept_as_data() {
        let form = form(&["--lines", "mail", "Send"]).unwrap();
        let data = |line: &[u8]| match form.filled(line).map(|job| job.map(|job| job.payload)) {
            Ok(Some(Payload::Data(data))) => data.to_text().into_owned(),
            Ok(other) => format!("{other:?}"),
            Err(failure) => failure.message,
        };
        assert_eq!(data(b"{\"n\": 1}\r"), "{\"n\": 1}\r");
        assert_eq!([data(b""), data(b" \r")], ["None", "None"]);
        assert_eq!(data(b"[1,"), "it is not JSON: EOF while parsing a value at column 3");
        assert_eq!(data(b"\"\xff\""), "it is not JSON: no UTF-8 at column 2");
    }
}
