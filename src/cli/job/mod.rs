//! `job`: its commands, with a file for each longer one.

pub(super) mod asked_logs;
mod cancel;
mod edit;
pub(super) mod lens;
pub(super) mod list;
mod logs;
pub(super) mod many;
mod picture;
mod rows;
mod sample;
pub(super) mod show;
mod state_line;
mod stats;
pub(super) mod wait;

use super::args::JobCommand;
use config::Config;
use failure::Failure;

/// Runs one command of `job`.
pub(super) async fn run(config: &Config, command: JobCommand) -> Result<u8, Failure> {
    match command {
        JobCommand::Show(args) => show::show(config, &args).await,
        JobCommand::Picture(args) => picture::picture(config, &args).await,
        JobCommand::List(args) => list::list(config, args).await,
        JobCommand::Wait(args) => wait::wait(config, &args).await,
        JobCommand::Result(args) => wait::result(config, &args).await,
        JobCommand::Stats(args) => stats::stats(config, &args).await,
        JobCommand::Logs(logs) => logs::logs(config, &logs).await,
        JobCommand::Cancel(args) => cancel::cancel(config, &args).await,
        JobCommand::Depends(depends) => edit::depends(config, depends).await,
        JobCommand::Priority(priority) => edit::priority(config, &priority).await,
        JobCommand::Tag(tag) => edit::tag(config, tag).await,
        JobCommand::Track(jobs) => edit::track(config, &jobs).await,
        JobCommand::Untrack(jobs) => edit::untrack(config, &jobs).await,
        JobCommand::Retry(retry) => many::retry(config, &retry).await,
        JobCommand::Discard(discard) => many::discard(config, &discard).await,
    }
}
