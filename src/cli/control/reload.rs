//! `reload`, `recycle`, `scale`, `pause`, `resume` and `drain`: changes to a running supervisor.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::time::Duration;

use super::exchange::settled;
use crate::cli::access::elsewhere::supervisor;
use crate::cli::args::{Drain, Pause, Recycle, Reload, Resume, Scale as ScaleArgs};
use crate::cli::term::format::counted;
use crate::cli::term::screen::{age, escaped, print, print_json};
use api::{Changed, Error, PauseOrder, Reloaded};
use config::Config;
use failure::{Failure, exit};
use model::{Change, PoolNow};

const NO_FILE: &str = "The supervisor was started without a file (-c), so there is nothing to read again: \
                       flags and variables stay as they were.";

/// Has the supervisor read its settings again.
pub(crate) async fn reload(config: &Config, args: &Reload) -> Result<u8, Failure> {
    let reloaded = supervisor(config).await?.reload(args.dry_run).await;
    let Reloaded { file, pools, changed } = reloaded.map_err(|error| {
        // Errors in the settings give the exit code of `start`.
        let are_wrong = matches!(&error, Error::Problem(problem) if problem.code == 409);
        let failure = Failure::from(error);
        if are_wrong { Failure { code: exit::CONFIG, ..failure } } else { failure }
    })?;
    match args.json {
        true => print_json(&serde_json::json!({
            "file": file, "pools": pools, "changed": changed, "dry_run": args.dry_run
        }))?,
        false => {
            if file.is_none() {
                writeln!(io::stderr(), "{NO_FILE}")?;
            }
            print(&text(&pools, &changed))?;
        }
    }
    // The word for a pool that stays as it is (`Step::Keep`).
    let exchanged: Vec<String> =
        pools.into_iter().filter(|(_, step)| step != "unchanged").map(|(pool, _)| pool).collect();
    if args.wait { settled(config, &exchanged, args.timeout).await } else { Ok(exit::OK) }
}

/// The step of each pool, with its changed settings below it; those of no pool come first.
fn text(pools: &BTreeMap<String, String>, changed: &[Changed]) -> String {
    let of = |pool: Option<&str>| -> String {
        let own = changed.iter().filter(|changed| changed.pool.as_deref() == pool);
        let line = |Changed { setting, from, to, .. }: &Changed| {
            let indent = if pool.is_some() { "  " } else { "" };
            format!("{indent}{}\n", escaped(&format!("{setting}: {from} -> {to}")))
        };
        own.map(line).collect()
    };
    let of_pool = |(pool, step): (&String, &String)| format!("{}: {step}\n{}", escaped(pool), of(Some(pool)));
    of(None) + &pools.iter().map(of_pool).collect::<String>()
}

/// Replaces the workers of a pool, or of all.
pub(crate) async fn recycle(config: &Config, args: &Recycle) -> Result<u8, Failure> {
    let client = supervisor(config).await?;
    client.change(args.pool.as_deref(), Change::Recycle, &PauseOrder::default()).await?;
    if !args.wait {
        return Ok(exit::OK);
    }
    let pools = match &args.pool {
        Some(pool) => vec![pool.clone()],
        None => client.status().await?.pools.into_iter().map(|pool| pool.name).collect(),
    };
    settled(config, &pools, args.timeout).await
}

/// Gives a pool another number of workers.
pub(crate) async fn scale(config: &Config, args: &ScaleArgs) -> Result<u8, Failure> {
    change(config, Some(&args.pool), Change::Scale(args.workers), &PauseOrder::default(), args.json).await
}

/// Pauses a pool, or all: no more jobs are fetched.
pub(crate) async fn pause(config: &Config, args: &Pause) -> Result<u8, Failure> {
    let how = PauseOrder { reason: args.reason.clone(), until_stop: false };
    change(config, args.pool.as_deref(), Change::Pause, &how, args.json).await
}

/// Resumes a pool, or all.
pub(crate) async fn resume(config: &Config, args: &Resume) -> Result<u8, Failure> {
    change(config, args.pool.as_deref(), Change::Resume, &PauseOrder::default(), args.json).await
}

/// Stops fetching, and waits for the end of the running jobs. It is for a stop, so the next start takes jobs again.
pub(crate) async fn drain(config: &Config, args: &Drain) -> Result<u8, Failure> {
    let client = supervisor(config).await?;
    client.change(None, Change::Pause, &PauseOrder { reason: None, until_stop: true }).await?;
    if !args.wait {
        return Ok(exit::OK);
    }
    let timeout = args.timeout.unwrap_or(Duration::MAX);
    match tokio::time::timeout(timeout, client.at_rest()).await {
        Ok(rest) => Ok(rest.map(|()| exit::OK)?),
        Err(_) => Err(Failure::new(exit::TIMED_OUT, format!("jobs still run after {}", age(timeout)))
            .hint("taskvisor status shows them; none is taken until taskvisor resume")),
    }
}

async fn change(
    config: &Config,
    pool: Option<&str>,
    change: Change,
    how: &PauseOrder,
    is_json: bool,
) -> Result<u8, Failure> {
    let now = supervisor(config).await?.change(pool, change, how).await?;
    match is_json {
        true => print_json(&now)?,
        false => print(&now.pools.iter().map(|pool| holds(pool) + "\n").collect::<String>())?,
    }
    Ok(exit::OK)
}

/// What holds for a pool now, in a line.
fn holds(now: &PoolNow) -> String {
    let pool = escaped(&now.pool);
    let workers = match now.workers_before == now.workers {
        true => counted(now.workers.into(), "worker", "workers"),
        false => format!("{} -> {}", now.workers_before, counted(now.workers.into(), "worker", "workers")),
    };
    let taking = match now.paused {
        true => format!("paused: takes no more jobs until taskvisor resume {pool}"),
        false => "takes jobs".into(),
    };
    format!("pool {pool}: {workers}, {taking}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_pool_is_told_with_its_size_and_whether_it_takes_jobs() {
        let now = |workers_before, workers, paused| {
            holds(&PoolNow { pool: "mail".into(), workers_before, workers, paused })
        };
        assert_eq!(now(2, 5, false), "pool mail: 2 -> 5 workers, takes jobs");
        assert_eq!(
            now(1, 1, true),
            "pool mail: 1 worker, paused: takes no more jobs until taskvisor resume mail"
        );
    }

    #[test]
    fn reload_output_shows_old_and_new_values() {
        let change = |pool: Option<&str>, setting: &str| Changed {
            pool: pool.map(Into::into),
            setting: setting.into(),
            from: "1".into(),
            to: "[2\u{1b}]".into(),
        };
        let pools =
            BTreeMap::from([("a".into(), "unchanged".into()), ("b".into(), "gets new workers".into())]);
        let text = text(&pools, &[change(None, "lease"), change(Some("b"), "recycle.jobs")]);
        assert_eq!(
            text,
            "lease: 1 -> [2\\x1b]\na: unchanged\nb: gets new workers\n  recycle.jobs: 1 -> [2\\x1b]\n"
        );
    }
}
