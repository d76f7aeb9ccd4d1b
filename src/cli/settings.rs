//! Makes settings of the command line.

use super::args::{Args, Command};
use super::trial;
use boot::{Noted, noted};
use config::{Config, Flags, Purpose, Surroundings, resolve};
use failure::Failure;

/// The settings, read for the purpose of the command.
pub(super) fn settings(args: &Args) -> Result<Config, Failure> {
    let starts = matches!(args.command, Command::Start(_) | Command::Check(_));
    settings_for(args, if starts { Purpose::Start } else { Purpose::Find })
}

/// The settings for one purpose; the supervisor reads those that `start` has stored.
pub(super) fn settings_for(args: &Args, purpose: Purpose) -> Result<Config, Failure> {
    let mut flags = Flags { purpose, ..args.common.flags() };
    if let Some(start) = args.start() {
        start.add_to(&mut flags);
    }
    if flags.purpose == Purpose::Serve {
        // Not the file itself, which may have changed since: only a reload takes that over.
        flags.in_force = boot::settings_in_force();
    }
    let mut config = trial::adapt(resolve(flags, &Surroundings::of_process())?);
    // The supervisor's broker may stand in a settings file that this command is not told of.
    // `config show` shows what is set.
    if purpose == Purpose::Find
        && !matches!(args.command, Command::Config(_))
        && let Noted::Known(broker) = noted(&config)
    {
        config.broker = broker;
    }
    Ok(config)
}
