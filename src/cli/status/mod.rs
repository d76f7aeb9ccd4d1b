//! `status`: once, repeatedly, or as an exit code.

pub(super) mod fleet;
mod fold;
mod page;
pub(super) mod slot;
pub(super) mod tree;
mod watch;

#[cfg(test)]
mod fold_tests;

use std::io::{self, IsTerminal};
use std::time::Duration;

use self::watch::{Keys, fit};
use super::access::elsewhere::supervisor;
use super::args::status::Status as Args;
use super::term::screen::{Look, print, print_json};
use super::unserved::say;
use api::Client;
use boot::unread;
use config::Config;
use failure::exit;
use failure::{Failure, HANGS};
use model::{Health, Status};
use spool::Desk;

/// Shows the supervisor's status, or that of the fleet.
pub(super) async fn status(config: &Config, args: &Args) -> Result<u8, Failure> {
    if args.fleet {
        return fleet::fleet(config, args).await;
    }
    if !args.quiet
        && let Some((what, hint)) = (config.remote.is_none()).then(|| unread(config)).flatten()
    {
        say(&what, &hint);
    }
    match show(config, args).await {
        // This is also a verdict; other failures are printed.
        Err(failure) if args.quiet && matches!(failure.code, exit::NOT_RUNNING | exit::UNHEALTHY) => {
            Ok(failure.code)
        }
        shown => shown.map_err(|failure| with_spool(config, failure)),
    }
}

/// Adds how many puts of members wait for the next start.
fn with_spool(config: &Config, mut failure: Failure) -> Failure {
    let desk = Desk::at(&config.state_dir);
    if failure.code == exit::NOT_RUNNING
        && config.remote.is_none()
        && let Ok(look) = desk.look()
        && let count @ 1.. = look.puts.len()
    {
        let waits = if count == 1 { "1 put waits" } else { &format!("{count} puts wait") };
        failure
            .causes
            .push(format!("{waits} in {}: the next start queues what is there", desk.dir().display()));
    }
    failure
}

async fn show(config: &Config, args: &Args) -> Result<u8, Failure> {
    let client = supervisor(config).await?;
    match args.watch {
        Some(seconds) => watch(&client, args, Duration::from_secs(seconds.into())).await,
        None => once(&client, args).await,
    }
}

/// A supervisor that does not answer for this long hangs.
const PATIENCE: Duration = Duration::from_secs(5);

fn hangs() -> Failure {
    Failure::new(exit::UNHEALTHY, format!("the supervisor has not answered within {} s", PATIENCE.as_secs()))
        .hint(HANGS)
}

async fn once(client: &Client, args: &Args) -> Result<u8, Failure> {
    let status = tokio::time::timeout(PATIENCE, client.status()).await.map_err(|_| hangs())??;
    if args.quiet {
        return Ok(verdict(&status));
    }
    match args.json {
        true => print_json(&status)?,
        false => print(&tree::render(&status, clock::wall(), &look(args)))?,
    }
    Ok(exit::OK)
}

fn look(args: &Args) -> Look {
    Look { all: args.all, ..Look::of_stdout(args.ascii) }
}

fn verdict(status: &Status) -> u8 {
    match status.verdict {
        Health::Healthy => exit::OK,
        Health::Degraded => exit::DEGRADED,
        Health::Unhealthy => exit::UNHEALTHY,
    }
}

/// Draws until `q` or Ctrl-C. While the supervisor is away the screen says so, and it is looked for again.
async fn watch(client: &Client, args: &Args, every: Duration) -> Result<u8, Failure> {
    // JSON on a terminal is a stream of lines, too.
    let full_screen = io::stdout().is_terminal() && !args.json;
    if full_screen {
        print(OPEN)?;
    }
    let mut keys = Keys::open();
    // Caught, so that the terminal gets its screen and its cursor back.
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let shown = tokio::select! {
        shown = redraw(client, args, every, full_screen) => shown,
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = term.recv() => Ok(()),
        () = keys.quit() => Ok(()),
    };
    if full_screen {
        print(CLOSE)?;
    }
    shown.map(|()| exit::OK)
}

/// Codes for the alternate screen without a cursor, and back.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";

async fn redraw(client: &Client, args: &Args, every: Duration, full_screen: bool) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        let status = client.status().await.map_err(Failure::from);
        if args.json {
            match status {
                Ok(status) => print_json(&status)?,
                // On stderr, so that each line of stdout is a JSON document.
                Err(failure) => drop(failure.print()),
            }
            continue;
        }
        let look = look(args);
        let parts = match status {
            Ok(status) => tree::parts(&status, clock::wall(), &look),
            Err(failure) => [failure.render(), String::new(), String::new()],
        };
        print(&if full_screen { frame(&fit(&parts, &look)) } else { parts.concat() + "\n" })?;
    }
}

/// Draws over the last frame, so that nothing flickers.
fn frame(lines: &[String]) -> String {
    // Home. EL erases what stood right of a line, and ED what stood below the last.
    format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"))
}
