//! Resolves the settings of one pool.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::Purpose;
use super::identity::identity;
use super::made::Made;
use super::pool::Pool;
use super::pool_values::Mode;
use super::program::{must_be_there, program};
use super::purpose::Reading;
use super::section::Section;
use super::wrong::Wrong;
use model::{Bytes, Class, ClassFilter, PoolSettings, Retry, SpawnSpec, Work};

/// Default of jobs at a time in a worker of coroutines.
const CONCURRENCY: u32 = 100;

/// The numbers that a mode stands for.
struct Shape {
    template: bool,
    jobs_at_once: u32,
    jobs_per_life: Option<u64>,
}

/// Gives the settings of the pool, and how to make its workers. What several settings say together is written first, all
/// others by their rows.
pub(super) fn resolve_pool(name: &str, mut said: Pool, with: &Reading<'_>) -> Result<Made, Wrong> {
    let work = work(said.command.take(), said.run.take())?;
    let Shape { template, jobs_at_once, jobs_per_life } = shape(&work, &said)?;
    // Workers of a command say themselves which classes they have, and how often each is tried. A program says nothing,
    // so what fails is not run again unless the job or the pool says so.
    let (knows, retry) = match work {
        Work::Programs => (Some(BTreeMap::from([(Class::EXEC.into(), Default::default())])), Retry::NONE),
        Work::Run(_) => (None, Retry::NONE),
        Work::Command(_) => (None, Retry::CLASS),
    };
    jobs_have_a_place(&said)?;
    let (user, group) = (said.user.take(), said.group.take());
    let pool = PoolSettings {
        name: name.into(),
        template,
        jobs_at_once,
        jobs_per_life,
        knows: knows.map(Arc::new),
        retry,
        ..PoolSettings::default()
    };
    let mut made = Made { pool, spec: SpawnSpec { work, ..SpawnSpec::default() } };
    said.write(&mut made, with)?;
    if made.spec.work == Work::Programs {
        takes_programs(&made.pool.filter)?;
    }
    // A command that looks for a supervisor starts no process, and may run on a machine or as a user that knows none of
    // these accounts.
    made.spec.identity = match with.purpose {
        Purpose::Find => None,
        Purpose::Start | Purpose::Serve => identity(user.as_deref(), group.as_deref(), with.around)?,
    };
    if with.purpose == Purpose::Start {
        made.spec.cwd.as_deref().map_or(Ok(()), must_be_a_directory)?;
        must_be_there(&made.spec)?;
    }
    Ok(made)
}

fn jobs_have_a_place(said: &Pool) -> Result<(), Wrong> {
    let sandbox = said.sandbox.unwrap_or_default();
    if sandbox && said.mode == Some(Mode::Coroutine) {
        return Err(Wrong::new(
            "sandbox",
            "jobs that share a process share its directory, which none can have alone",
        )
        .hint("mode: prefork or fork"));
    }
    if sandbox && said.cwd.is_some() {
        let message = "sandbox and cwd cannot both say where its jobs work";
        return Err(Wrong::new("sandbox", message));
    }
    Ok(())
}

fn work(command: Option<Vec<Bytes>>, run: Option<Vec<Bytes>>) -> Result<Work, Wrong> {
    match (command, run) {
        (Some(_), Some(_)) => Err(Wrong::new("run", "command and run cannot both say what its workers are")
            .hint(
                "command: speaks the worker protocol; run: a program for each job, with its data on stdin",
            )),
        (Some(words), None) => Ok(Work::Command(program("command", words)?)),
        (None, Some(words)) => Ok(Work::Run(program("run", words)?)),
        (None, None) => Ok(Work::Programs),
    }
}

fn shape(work: &Work, pool: &Pool) -> Result<Shape, Wrong> {
    let mode = match (work, pool.mode) {
        (Work::Command(_), mode) => mode.unwrap_or(Mode::Prefork),
        (Work::Programs | Work::Run(_), None | Some(Mode::Fork)) => Mode::Fork,
        (Work::Programs, Some(mode)) => {
            let message =
                format!("mode {mode} needs a command: without one each job is a program of its own");
            return Err(Wrong::new("mode", message).hint("set command to workers that speak the protocol"));
        }
        (Work::Run(_), Some(mode)) => {
            let message = format!("mode {mode} does not go with run, which starts a program for each job");
            return Err(Wrong::new("mode", message).hint("leave mode out, or use command"));
        }
    };
    Ok(Shape {
        // A program has no application that could be loaded once for all.
        template: mode == Mode::Fork && matches!(work, Work::Command(_)),
        jobs_at_once: jobs_at_once(mode, pool.concurrency)?,
        jobs_per_life: (mode == Mode::Fork).then_some(1),
    })
}

fn jobs_at_once(mode: Mode, concurrency: Option<u32>) -> Result<u32, Wrong> {
    match (mode, concurrency) {
        (_, Some(0)) => Err(Wrong::new("concurrency", "concurrency is 0: no job could run")),
        (Mode::Coroutine, number) => Ok(number.unwrap_or(CONCURRENCY)),
        (Mode::Prefork | Mode::Fork, None | Some(1)) => Ok(1),
        (Mode::Prefork | Mode::Fork, Some(number)) => {
            let message = format!("a worker of mode {mode} runs one job at a time, not {number}");
            Err(Wrong::new("concurrency", message)
                .hint("set mode to coroutine for many jobs in one worker, or more workers"))
        }
    }
}

fn takes_programs(filter: &ClassFilter) -> Result<(), Wrong> {
    let exec = Class::from(Class::EXEC);
    if filter.matches(&exec) {
        return Ok(());
    }
    let key = if filter.only.is_empty() { "except_classes" } else { "classes" };
    let message =
        format!("{key} leaves it nothing to do: without command or run it takes class {exec} alone");
    Err(Wrong::new(key, message))
}

fn must_be_a_directory(dir: &Path) -> Result<(), Wrong> {
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Wrong::new("cwd", format!("cwd {} is no directory", dir.display()))),
        Err(error) => Err(Wrong::new("cwd", format!("cwd {} cannot be used: {error}", dir.display()))),
    }
}
