//! `simulate`: what a workload would do to a fleet.

mod args;
mod show;

use std::io;
use std::process::ExitCode;

use serde::Serialize;

pub use self::args::{HELP, Simulate};
use self::show::Tried;
use super::term::screen::{print, print_json};
use crate::config::read_text;
use crate::failure::{Failure, exit};
use crate::model::Order;
use crate::simulate::{Goal, Plan, Prices, Workload, simulate as run};

/// The largest workload, in bytes.
const SIZE_MAX: u64 = 512 << 20;

/// The most runs of one command without a goal.
const RUNS_MAX: usize = 1_000;

/// What `simulate --json` prints, schema `taskvisor.simulate/1`.
#[derive(Debug, Serialize)]
struct Runs<'a> {
    schema: &'static str,
    seed: u64,
    goals: &'a [Goal],
    runs: &'a [Tried],
}

/// Runs the simulation and prints the result.
pub(super) fn simulate(how: &Simulate) -> Result<ExitCode, Failure> {
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
    let counts = how.workers.clone().count();
    if how.goals.is_empty() && counts * how.orders().len() > RUNS_MAX {
        let message = format!("these are {} runs, more than {RUNS_MAX}", counts * how.orders().len());
        return Err(Failure::new(exit::USAGE, message).hint("give fewer workers, or a goal with --slo"));
    }
    let runs: Vec<Tried> = how.orders().into_iter().flat_map(|order| tried(how, &workload, order)).collect();
    match how.json {
        true => {
            let goals = &how.goals;
            print_json(&Runs { schema: "taskvisor.simulate/1", seed: how.seed, goals, runs: &runs })?;
        }
        false => print(&show::show(&runs, how))?,
    }
    let reached = how.goals.is_empty() || runs.iter().any(|run| run.reached == Some(true));
    Ok(ExitCode::from(if reached { exit::OK } else { exit::FAILED }))
}

/// The runs of all sizes; with a goal only up to the first that reaches it.
fn tried(how: &Simulate, workload: &Workload, order: Order) -> Vec<Tried> {
    let prices =
        Prices { batch: how.batch.into(), poll: how.poll, per_million: how.price, ..Prices::default() };
    let mut all = Vec::new();
    for workers in how.workers.clone() {
        let plan = Plan { workers, order, latency: how.latency, prices, seed: how.seed };
        let report = run(workload, &plan);
        let reached = how.goals.iter().all(|goal| goal.is_met(&report) == Some(true));
        all.push(Tried { reached: (!how.goals.is_empty()).then_some(reached), report });
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
    let wrong = |wrong: crate::simulate::WrongWorkload| {
        Failure::new(exit::USAGE, format!("--priority does not fit {name}: {wrong}"))
    };
    workload.set_priorities(&priorities).map_err(wrong)?;
    Ok(workload)
}
