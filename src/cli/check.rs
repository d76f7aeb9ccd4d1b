//! `check`: the findings on the settings, without starting anything.

use std::process::ExitCode;

use clap::CommandFactory;
use serde::Serialize;
use tracing::warn;

use super::args::typed::typed;
use super::args::{Args, Check, Command};
use super::settings::settings;
use super::term::screen::{Look, escaped, print, print_json};
use boot::{LAST_LINES, refuse_gone_store};
use config::{self, Config, Facts, Finding, Origins, RouteTo};
use failure::{Failure, exit};
use model::{Class, Millis, PoolSettings, TimedSize};

/// What `check --json` prints, schema `taskvisor.check/1`.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    /// `fine`, `warnings` or `refused`.
    verdict: &'static str,
    /// Why `start` would refuse the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    findings: &'a [Finding],
    /// Size rules of pools by the time of day.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sizes: Vec<Size>,
    /// Routes of new jobs to other brokers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Way>,
}

/// A route of new jobs of some classes to another broker.
#[derive(Debug, PartialEq, Serialize)]
struct Way {
    classes: Vec<Class>,
    percent: u8,
    /// Its URL, without secrets.
    to: String,
}

/// A pool with size rules.
#[derive(Debug, PartialEq, Serialize)]
struct Size {
    pool: String,
    /// Number of workers that it would have now.
    workers: u16,
    #[serde(flatten)]
    timed: TimedSize,
}

impl Way {
    fn of(route: &RouteTo) -> Way {
        Way { classes: route.classes.only.clone(), percent: route.percent, to: route.to.to_string() }
    }

    fn line(&self) -> String {
        let classes: Vec<&str> = self.classes.iter().map(Class::as_str).collect();
        let text = format!("{} % of new jobs of {} go to {}", self.percent, classes.join(", "), self.to);
        format!("{}\n", escaped(&text))
    }
}

/// Prints the findings on flags, environment and file.
pub(super) fn check(args: &Args, how: &Check) -> Result<ExitCode, Failure> {
    let (mut sizes, mut routes) = (Vec::new(), Vec::new());
    let looked = settings(args).and_then(|config| {
        // Kept outside of the result, so that --json shows them of refused settings as well.
        sizes = sizes_of(&config, Millis(clock::wall_millis()));
        routes = config.routes.iter().map(Way::of).collect();
        let found = findings(args, &config)?;
        store(&config)?;
        Ok(found)
    });
    let (code, verdict) = match &looked {
        Err(failure) => (failure.code, "refused"),
        Ok(found) if found.is_empty() => (exit::OK, "fine"),
        Ok(_) => (if how.strict { exit::FAILED } else { exit::OK }, "warnings"),
    };
    match looked {
        Err(failure) if !how.json => return Err(failure),
        looked if how.json => {
            let (error, hint) = match &looked {
                Err(failure) => (Some(failure.message.as_str()), failure.hint.as_deref()),
                Ok(_) => (None, None),
            };
            let findings = looked.as_deref().unwrap_or_default();
            print_json(&Report {
                schema: "taskvisor.check/1",
                verdict,
                error,
                hint,
                findings,
                sizes,
                routes,
            })?;
        }
        looked => {
            print(&render_sizes(&sizes, &Look::of_stdout(false)))?;
            print(&routes.iter().map(Way::line).collect::<String>())?;
            print(&render(looked.as_deref().unwrap_or_default()))?;
        }
    }
    Ok(ExitCode::from(code))
}

fn findings(args: &Args, config: &Config) -> Result<Vec<Finding>, Failure> {
    let origins = origins(args)?;
    let facts = Facts::gather(config, args.common.flags().config.as_deref())?;
    Ok(config::check(config, &facts, &origins))
}

/// Checks the stores that `start` and new jobs would open.
fn store(config: &Config) -> Result<(), Failure> {
    let mut brokers = std::iter::once(&config.broker).chain(config.routes.iter().map(|route| &route.to));
    refuse_gone_store(config).map_err(Failure::unopened)?;
    brokers.try_for_each(|broker| broker.look().map_err(Failure::unopened))
}

/// The origins of the settings of this command line.
pub(super) fn origins(args: &Args) -> Result<Origins, Failure> {
    let mut command = Args::command();
    // It was parsed successfully before; only the commands that were typed are built for it.
    let found = command.try_get_matches_from_mut(std::env::args_os());
    let typed = found.map(|found| typed(&command, &found));
    Ok(Origins::read(args.common.flags().config.as_deref(), typed.unwrap_or_default())?)
}

/// Logs the findings for a supervisor that is about to start. If the facts cannot be collected, that does not stop it.
pub(super) fn warn_of_findings(args: &Args, config: &Config) {
    debug_assert!(matches!(args.command, Command::Start(_)));
    let Ok(found) = findings(args, config) else { return };
    if found.is_empty() {
        return;
    }
    let Ok(log) = log::start(&config.log) else { return };
    for Finding { rule, pool, place, message, hint, .. } in found {
        let place = place.unwrap_or_default();
        match pool {
            Some(pool) => warn!(rule, place, hint, "pool '{pool}': {message}"),
            None => warn!(rule, place, hint, "{message}"),
        }
    }
    // The process becomes the keeper by exec, which ends the threads that write the log.
    log.flush(LAST_LINES);
}

fn sizes_of(config: &Config, now: Millis) -> Vec<Size> {
    let of = |pool: &PoolSettings| {
        let timed = TimedSize::of(&pool.sizes, now)?;
        Some(Size { pool: pool.name.clone(), workers: timed.workers.unwrap_or(pool.workers), timed })
    };
    config.settings.pools.iter().filter_map(of).collect()
}

fn render_sizes(sizes: &[Size], look: &Look) -> String {
    let line = |Size { pool, workers, timed }: &Size| {
        let next = look.moment(timed.next);
        let text = format!("pool '{pool}': {workers} workers now, {} from {next}", timed.next_workers);
        format!("{}\n", escaped(&text))
    };
    sizes.iter().map(line).collect()
}

fn render(findings: &[Finding]) -> String {
    let mut out = String::new();
    for Finding { rule, pool, place, message, hint, .. } in findings {
        let place = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let pool = pool.as_ref().map(|pool| format!("pool '{pool}': ")).unwrap_or_default();
        let message = format!("{place}{pool}{message} [{rule}]");
        out += &format!("warning: {}\nhint: {}\n", escaped(&message), escaped(hint));
    }
    match findings.len() {
        0 => "fine\n".into(),
        1 => out + "1 warning\n",
        many => out + &format!("{many} warnings\n"),
    }
}
