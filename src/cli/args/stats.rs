//! What can be typed after `job stats`.

use clap::builder::NonEmptyStringValueParser;

use model::Day;
use model::verb::ClassStats;

/// Below `job stats --help`.
pub(crate) const HELP: &str = "\
CPU time and memory are known of jobs that had a process of their own: commands, and mode fork.

Examples:
  taskvisor job stats                             all classes, today
  taskvisor job stats --class mail.Send --days 7  one class, by day";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this class
    #[arg(long, value_name = "CLASS", value_parser = NonEmptyStringValueParser::new())]
    pub class: Option<String>,
    /// The last day, in UTC; today if there is none
    #[arg(long, value_name = "DATE", value_parser = |text: &str| text.parse::<Day>())]
    pub day: Option<Day>,
    /// How many days, up to that one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=ClassStats::DAYS_KEPT))]
    pub days: u32,
    /// One JSON document a line
    #[arg(long)]
    pub json: bool,
}
