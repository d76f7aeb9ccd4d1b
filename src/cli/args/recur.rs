//! What can be typed after `recur`.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, ArgGroup, Subcommand};

use super::Put;
use config::parse_duration;
use model::{Cron, Overlap};

#[derive(Debug, Subcommand)]
pub(crate) enum RecurCommand {
    /// Make or change a recurring job
    #[command(
        override_usage = USAGE,
        after_help = HELP,
        mut_arg("jid", hidden),
        mut_arg("lines", hidden),
        mut_arg("null", hidden),
        mut_arg("delay", hidden),
        mut_arg("at", hidden),
        mut_arg("wait", hidden),
        mut_arg("timeout", hidden),
        mut_arg("depends", hidden),
        mut_arg("exists", hidden),
        mut_arg("json", |json| json.help("Print as JSON"))
    )]
    Put(Box<RecurPut>),
    /// List the recurring jobs
    List(RecurList),
    /// Show one, and when it is due
    Show(RecurName),
    /// Put its job now, whatever its schedule and its latest job
    Run(RecurName),
    /// Put none of its jobs until it is resumed
    Pause(RecurNames),
    /// End the pause; what was due meanwhile is made up as --catch-up says
    Resume(RecurNames),
    /// End the recurrence; the jobs that were put stay
    Remove(RecurNames),
}

/// What a recurring job has no use for.
fn hidden(arg: Arg) -> Arg {
    arg.hide(true)
}

const USAGE: &str = "\
taskvisor recur put NAME <--every DURATION|--cron LINE> [OPTIONS] -- <COMMAND>...
       taskvisor recur put NAME <--every DURATION|--cron LINE> [OPTIONS] <QUEUE> <CLASS> [DATA|@FILE|-]";

const HELP: &str = "\
Its jobs are NAME-1, NAME-2 and so on; a number is never used twice. Put again it changes; with the
same schedule it stays due when it was. Supervisors put its jobs: while none runs, none is put.

The fields of LINE are minute, hour, day of the month, month and day of the week; @hourly, @daily,
@weekly, @monthly and @yearly stand for a line. Where neither day begins with *, either will do.
What the clock jumps over is due at the end of the gap; what it shows twice, the first time. An hour
of * goes by the time that passes.

Examples:
  taskvisor recur put backup --cron '30 2 * * mon-fri' -- /usr/local/bin/backup
  taskvisor recur put report --cron @monthly --tz Europe/Vienna mail Report
  taskvisor recur put poll --every 10m --offset 30s --time-limit 5m -- ./poll";

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("schedule").required(true))]
pub(crate) struct RecurPut {
    /// What it is called
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), required_unless_present = "named")]
    pub name: Option<String>,
    /// The same, if it begins with -: recur put --name=-NAME
    #[arg(long = "name", value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub named: Option<String>,
    /// Again after this long: 1s or more
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, group = "schedule", help_heading = "When")]
    pub every: Option<Duration>,
    /// With --every, the first time this long from now [default: at once]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "cron", help_heading = "When")]
    pub offset: Option<Duration>,
    /// By the wall clock
    #[arg(long, value_name = "LINE", value_parser = parse_cron, group = "schedule", help_heading = "When")]
    pub cron: Option<Cron>,
    /// With --cron, the time zone, as Europe/Vienna [default: that of this machine]
    #[arg(long, value_name = "ZONE", conflicts_with = "every", help_heading = "When")]
    pub tz: Option<String>,
    /// When it is due and its latest job has not ended: skip this time, or allow one more
    #[arg(long, value_name = "skip|allow", default_value = "skip", value_parser = |text: &str| text.parse::<Overlap>(), help_heading = "When")]
    pub overlap: Overlap,
    /// Make up for what was missed within this time, while nobody served the store [default: what is a minute late]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "When")]
    pub catch_up: Option<Duration>,
    /// With --overlap allow, make up for the latest N at most
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "When")]
    pub backlog: u32,
    #[command(flatten)]
    pub put: Put,
}

impl RecurPut {
    /// Its name, and its job as `put` takes it. A name that is given by its option leaves its place to the next word. None
    /// if there are too many words.
    pub(crate) fn placed(&self) -> Option<(String, Put)> {
        let put = self.put.clone();
        match (&self.named, &self.name) {
            (None, name) => Some((name.clone()?, put)),
            (Some(_), _) if put.data.is_some() => None,
            (Some(name), word) => {
                let (class, data) = (put.queue.clone(), put.class.clone().map(OsString::from));
                Some((name.clone(), Put { queue: word.clone(), class, data, ..put }))
            }
        }
    }
}

/// A wrong line is shown with marks under the place.
fn parse_cron(text: &str) -> Result<Cron, String> {
    text.parse::<Cron>().map_err(|wrong| wrong.picture())
}

#[derive(Debug, clap::Args)]
pub(crate) struct RecurList {
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RecurName {
    /// The recurring job's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RecurNames {
    /// The names of recurring jobs
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub names: Vec<String>,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}
