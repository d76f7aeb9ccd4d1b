//! What can be typed after `why`.

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;

#[derive(Debug, Subcommand)]
pub(crate) enum WhyCommand {
    /// A job, by its id
    Job(WhyOf),
    /// A slot, as status shows it: POOL.N
    Slot(WhyOf),
    /// A pool, by its name
    Pool(WhyOf),
}

#[derive(Debug, clap::Args)]
pub(crate) struct WhyOf {
    /// The id of a job, POOL.N of a slot, or the name of a pool
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// The facts as JSON
    #[arg(long)]
    pub json: bool,
}
