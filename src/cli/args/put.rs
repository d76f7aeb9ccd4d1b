//! What can be typed after `put`.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;

use super::many::{one_id, to_come};
use config::parse_duration;
use model::{Exists, Millis};

/// The two ways to put.
pub(crate) const USAGE: &str = "\
taskvisor put [OPTIONS] -- <COMMAND>...
       taskvisor put [OPTIONS] <QUEUE> <CLASS> [DATA|@FILE|-]";

/// Text below the options.
pub(crate) const HELP: &str = "\
A command runs as it stands behind --. A class names code that the workers of a queue have; what it gets is JSON.

Prints the id of each job, one a line, once the job cannot be lost. Works while no supervisor runs.

Examples:
  taskvisor put -- gzip -t backup.gz
  find . -name '*.gz' -print0 | taskvisor put --lines -0 -- gzip -t {}
  taskvisor put -q mail -d @letter.txt -- sendmail -t
  taskvisor put mail Welcome '{\"to\": \"ann@example.org\"}'
  taskvisor put --wait --timeout 1m math Add '[1, 2]'
  taskvisor put mail Welcome --lines --batch letters <people.jsonl && taskvisor batch wait letters";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Put {
    /// Where a command waits [default: default]
    #[arg(short = 'q', long = "queue", value_name = "QUEUE", value_parser = NonEmptyStringValueParser::new())]
    pub commands_queue: Option<String>,
    /// The class, if that or the queue begins with -: put -q=-QUEUE --class=-CLASS DATA
    #[arg(long = "class", value_name = "CLASS", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["class", "command"])]
    pub named_class: Option<String>,
    /// Higher runs first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub priority: i32,
    /// Not before this long from now
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub delay: Option<Duration>,
    /// Not before this date or time, here or with an offset: "2026-12-24 18:00"
    #[arg(long, value_name = "DATE", value_parser = to_come, conflicts_with = "delay")]
    pub at: Option<Millis>,
    /// Drop it unless it begins within this time: then it has failed, as expired
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub expires: Option<Duration>,
    /// Tries after the first one
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// The longest run of an attempt
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub time_limit: Option<Duration>,
    /// A word to find it by; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Put it into this batch: taskvisor batch show NAME
    #[arg(long, value_name = "NAME", value_parser = super::batch::batch)]
    pub batch: Option<String>,
    /// Not before these jobs are complete; several with commas
    #[arg(long, value_name = "JID", value_delimiter = ',', value_parser = one_id)]
    pub depends: Vec<String>,
    /// Its id, instead of a new one
    #[arg(long, value_name = "JID", conflicts_with = "lines")]
    pub jid: Option<String>,
    /// If that id exists: refuse, or skip: print it and leave the job that has it as it is
    #[arg(long, value_name = "WHAT", requires = "jid", default_value = "refuse",
          value_parser = |text: &str| text.parse::<Exists>())]
    pub exists: Exists,
    /// What a command reads on stdin: DATA, @FILE, or - for the stdin of this command
    #[arg(short = 'd', long = "data", value_name = "DATA")]
    pub commands_stdin: Option<OsString>,
    /// Data that need not be JSON
    #[arg(long)]
    pub raw: bool,
    /// One job for each line of stdin. With a class the line is the data. With a command the line replaces each {} in the
    /// arguments; without any {} it becomes the last argument
    #[arg(long)]
    pub lines: bool,
    /// Lines end with a zero byte, so they may hold any other
    #[arg(short = '0', long, requires = "lines")]
    pub null: bool,
    /// Wait for the end and print the results, the ids on stderr: 0 = all complete, 1 = not all, 124 = timed out
    #[arg(long)]
    pub wait: bool,
    /// Wait no longer than this; the jobs go on
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
    pub timeout: Option<Duration>,
    /// Print each id as a JSON line; with --wait each end with its result
    #[arg(long)]
    pub json: bool,
    /// Where a job with a class waits
    #[arg(value_name = "QUEUE", value_parser = NonEmptyStringValueParser::new())]
    pub queue: Option<String>,
    /// What it is: one of the classes that its workers know
    #[arg(value_name = "CLASS", value_parser = NonEmptyStringValueParser::new())]
    pub class: Option<String>,
    /// JSON for its worker: DATA, @FILE, or - for the stdin of this command [default: null]
    #[arg(value_name = "DATA", allow_negative_numbers = true)]
    pub data: Option<OsString>,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl Put {
    /// The same with queue, class and data in their places, where the class was named by its option.
    pub(crate) fn placed(&self) -> Put {
        let Some(class) = self.named_class.clone() else { return self.clone() };
        let queue = self.commands_queue.clone().unwrap_or_else(|| "default".into());
        Put {
            commands_queue: None,
            queue: Some(queue),
            class: Some(class),
            data: self.queue.clone().map(OsString::from),
            ..self.clone()
        }
    }
}
