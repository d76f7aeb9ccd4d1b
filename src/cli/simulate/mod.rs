//! `simulate`: what a workload would do to a fleet.

mod args;
mod show;

use std::io;
use std::process::ExitCode;

use serde::Serialize;

pub(super) use self::args::{HELP, Simulate};
use self::show::Tried;
use super::term::screen::{print, print_json};
use brokers::ADAPTERS;
use config::read_text;
use failure::{Failure, exit};
use model::Order;
use simulate::{Goal, Plan, Sqs, Workload, simulate as run};

/// The largest workload, in bytes.
const SIZE_MAX: u64 = 512 << 20;

/// The scheme of Amazon SQS, also where this program cannot speak to it.
const SQS: &str = "sqs";

/// Limit of the runs of one command without a goal.
const RUNS_MAX: usize = 1_000;

/// What `simulate --json` prints, schema `taskvisor.simulate/1`.
#[derive(Debug, Serialize)]
struct Runs<'a> {
    schema: &'static str,
    seed: u64,
    /// The scheme of the broker.
    broker: &'a str,
    goals: &'a [Goal],
    runs: &'a [Tried],
}

/// Runs the simulation and prints the result.
pub(super) fn simulate(how: &Simulate, broker: Option<&str>) -> Result<ExitCode, Failure> {
    // The scheme alone counts: no broker is opened.
    let broker = scheme(broker)?;
    let sqs = (broker == SQS).then_some(Sqs { call: how.call, per_million: how.price });
    let workload = read(how)?;
    let named = |goal: &&Goal| {
        let has = |name: &str| workload.queues().iter().any(|queue| queue.name.as_str() == name);
        goal.queue != "*" && !has(&goal.queue)
    };
    if let Some(goal) = how.goals.iter().find(named) {
        let names: Vec<&str> = workload.queues().iter().map(|queue| queue.name.as_str()).collect();
        let message = format!("--slo {goal}: the workload has no queue '{}'", goal.queue);
        return Err(Failure::new(exit::USAGE, message).hint(format!("it has {}", names.join(", "))));
    }
    // With a goal the search ends early, so only the runs without one are limited.
    let counts = how.workers.clone().count();
    if how.goals.is_empty() && counts * how.orders().len() > RUNS_MAX {
        let message = format!("these are {} runs, more than {RUNS_MAX}", counts * how.orders().len());
        return Err(Failure::new(exit::USAGE, message).hint("give fewer workers, or a goal with --slo"));
    }
    let runs: Vec<Tried> =
        how.orders().into_iter().flat_map(|order| tried(how, &workload, sqs, order)).collect();
    match how.json {
        true => {
            let goals = &how.goals;
            let schema = "taskvisor.simulate/1";
            print_json(&Runs { schema, seed: how.seed, broker, goals, runs: &runs })?;
        }
        false => print(&show::show(&runs, how))?,
    }
    let reached = how.goals.is_empty() || runs.iter().any(|run| run.reached == Some(true));
    Ok(ExitCode::from(if reached { exit::OK } else { exit::FAILED }))
}

/// The scheme of a broker's URL, or of the scheme alone: that of the embedded store if there is none.
fn scheme(broker: Option<&str>) -> Result<&str, Failure> {
    let Some(broker) = broker else { return Ok("sqlite") };
    let scheme = broker.split_once(':').map_or(broker, |(scheme, _)| scheme);
    let known: Vec<&str> = ADAPTERS.iter().flat_map(|kind| kind.schemes()).copied().collect();
    if scheme == SQS || known.contains(&scheme) {
        return Ok(scheme);
    }
    // Not the text itself: a URL that is written wrongly may have its password anywhere.
    let message = "failed to read --broker: it is no broker, and begins with the scheme of none";
    Err(Failure::new(exit::USAGE, message).hint(format!("the schemes are {}", known.join(", "))))
}

/// The runs of all sizes; with a goal only up to the first that reaches it.
fn tried(how: &Simulate, workload: &Workload, sqs: Option<Sqs>, order: Order) -> Vec<Tried> {
    let mut all = Vec::new();
    for workers in how.workers.clone() {
        let plan = Plan { workers, order, latency: how.latency, sqs, seed: how.seed };
        let report = run(workload, &plan);
        let reached = how.goals.iter().all(|goal| goal.is_met(&report) == Some(true));
        all.push(Tried { reached: (!how.goals.is_empty()).then_some(reached), report });
        // The counts go up, so this is the smallest that is enough.
        if !how.goals.is_empty() && reached {
            break;
        }
    }
    all
}

fn read(how: &Simulate) -> Result<Workload, Failure> {
    let name = how.file.display();
    let text = read_text(&how.file, SIZE_MAX).map_err(|error: io::Error| {
        let denied = error.kind() == io::ErrorKind::PermissionDenied;
        let code = if denied { exit::PERMISSION } else { exit::USAGE };
        Failure::new(code, format!("failed to read {name}: {error}"))
    })?;
    let is_table = how.file.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"));
    let read = match is_table {
        true => Workload::from_csv(&text, how.interval),
        false => Workload::from_yaml(&text, how.seed),
    };
    let mut workload = read.map_err(|wrong| {
        let place = wrong.line.map_or_else(|| name.to_string(), |line| format!("{name}:{line}"));
        let failure = Failure::new(exit::USAGE, format!("{place}: {}", wrong.message));
        let hint = "YAML describes a workload; a table of jobs has a name that ends in .csv";
        if is_table { failure } else { failure.hint(hint) }
    })?;
    let priorities = how.priorities.iter().cloned().collect();
    let wrong = |wrong: simulate::WrongWorkload| {
        Failure::new(exit::USAGE, format!("--priority does not fit {name}: {wrong}"))
    };
    workload.set_priorities(&priorities).map_err(wrong)?;
    Ok(workload)
}
