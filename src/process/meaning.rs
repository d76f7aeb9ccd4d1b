//! Turns a worker's messages into values of the model.

use std::collections::BTreeMap;
use std::time::Duration;

use super::plan::Role;
use model::{Class, ClassSettings, Classes, Failure, Limits, NewJob, Next, Outcome, PoolSettings};
use wire::worker::{self, Done, Hello, PROTOCOL};

/// Limit of the classes of a worker.
const CLASSES: usize = 10_000;

/// Checks whether this program can work with the worker. Gives the classes that it knows.
pub(super) fn greeted(hello: &Hello<'_>, role: Role) -> Result<Option<Classes>, String> {
    if hello.protocol != PROTOCOL {
        return Err(format!("it speaks protocol {}, this supervisor speaks {PROTOCOL}", hello.protocol));
    }
    if role == Role::Template && !hello.template {
        return Err("it cannot be a template (its hello does not say so); use 'mode: prefork' with 'recycle: {jobs: 1}' for a \
                    new process each job"
            .into());
    }
    let Some(classes) = &hello.classes else { return Ok(None) };
    if classes.len() > CLASSES {
        return Err(format!("its hello names {} classes, {CLASSES} are the most", classes.len()));
    }
    let known: Result<BTreeMap<Class, ClassSettings>, String> = classes
        .iter()
        .map(|(name, class)| {
            let settings = settings(class).map_err(|why| {
                let name: String = name.chars().take(100).collect();
                format!("class {name:?} of its hello: {why}")
            })?;
            Ok((Class::from(name.as_str()), settings))
        })
        .collect();
    known.map(Some)
}

/// The warning about limits of classes that cannot be held in this pool, as its jobs share a process; None = there are
/// none, or the pool takes no job of such a class.
pub(super) fn unheld(classes: &Classes, pool: &PoolSettings) -> Option<String> {
    /// Limit of the classes that are named.
    const NAMED: usize = 5;
    if pool.jobs_at_once == 1 {
        return None;
    }
    let limits = |class: &ClassSettings| {
        let Limits { memory, cpu, processes, .. } = class.limits;
        let set = [("memory", memory.is_some()), ("cpu", cpu.is_some()), ("process", processes.is_some())];
        set.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect::<Vec<_>>().join(", ")
    };
    let taken = classes.iter().filter(|(name, _)| pool.filter.matches(name));
    let found: Vec<String> = taken
        .map(|(name, class)| (name, limits(class)))
        .filter(|(_, limits)| !limits.is_empty())
        .map(|(name, limits)| format!("{name} ({limits})"))
        .collect();
    let more = found.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = found.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    (!found.is_empty()).then(|| {
        format!(
            "limits of classes that are not held, as the jobs of a worker of mode coroutine share its process: {named}{more}; \
             use mode prefork or fork for them; limits.memory of the pool is that of all jobs of a worker"
        )
    })
}

fn settings(class: &worker::Class) -> Result<ClassSettings, String> {
    Ok(ClassSettings {
        limits: limits(class)?,
        retries: class.retries,
        delay: seconds(class.retry_delay)?,
        cap: seconds(class.retry_cap)?,
    })
}

fn limits(class: &worker::Class) -> Result<Limits, String> {
    let amounts = [class.memory_limit, class.process_limit, class.output_limit];
    if amounts.contains(&Some(0)) || [class.time_limit, class.cpu_limit].contains(&Some(0.0)) {
        return Err("it has a limit of 0, so no job could run".into());
    }
    Ok(Limits {
        time: seconds(class.time_limit)?,
        soft_time: seconds(class.soft_time_limit)?,
        memory: class.memory_limit,
        cpu: seconds(class.cpu_limit)?,
        processes: class.process_limit,
        output: class.output_limit,
    })
}

fn seconds(number: Option<f64>) -> Result<Option<Duration>, String> {
    let Some(number) = number else { return Ok(None) };
    let time =
        Duration::try_from_secs_f64(number).map_err(|_| format!("{number} is no number of seconds"))?;
    match time <= NewJob::DELAY_MAX {
        true => Ok(Some(time)),
        false => Err(format!("{number} seconds are longer than a hundred years")),
    }
}

/// Where a job goes on.
fn next(next: &worker::Next) -> Result<Next, String> {
    if next.queue.is_empty() {
        return Err("a job is to go on in a queue without a name".into());
    }
    Ok(Next {
        queue: next.queue.as_str().into(),
        delay: seconds(next.delay)?.unwrap_or_default(),
        depends: next.depends.iter().map(|id| id.as_str().into()).collect(),
    })
}

/// The group of the errors that a worker reports when one job has kept it from its others.
const BLOCKED: &str = "EventLoopBlocked";

/// The outcome in a worker's message.
pub(super) fn outcome(done: &Done<'_>) -> Result<Outcome, String> {
    let failure = || match &done.error {
        Some(error) => {
            let worker::Failure { group, message, trace } = error.clone();
            Failure { group, message, trace }.cut()
        }
        None => Failure { group: "failed".into(), message: String::new(), trace: None },
    };
    let after = || seconds(done.after).map(Option::unwrap_or_default);
    Ok(match done.outcome {
        worker::Outcome::Complete => Outcome::Complete {
            result: done.result.map(|json| json.get().to_owned()),
            next: done.next.as_ref().map(next).transpose()?,
        },
        worker::Outcome::Failed => Outcome::Failed(failure()),
        worker::Outcome::FailedForGood => Outcome::FailedForGood(failure()),
        worker::Outcome::Retry => Outcome::RetryAfter(after()?, failure()),
        worker::Outcome::Snooze if done.error.as_ref().is_some_and(|error| error.group == BLOCKED) => {
            Outcome::CutShort(after()?)
        }
        worker::Outcome::Snooze => Outcome::Snoozed(after()?),
        worker::Outcome::UnknownClass => Outcome::UnknownClass,
        worker::Outcome::Canceled => {
            let why = done.error.as_ref().map_or("it does not say why", |error| &error.message);
            let message = format!("it was asked to end, and not by this supervisor: {why}");
            Outcome::Interrupted(Failure { group: "interrupted".into(), message, trace: None }.cut())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ClassFilter;

    #[test]
    fn class_with_impossible_settings_is_named() {
        let class = |class| {
            let classes = Some(BTreeMap::from([("mail.Send".to_owned(), class)]));
            let hello = Hello { protocol: PROTOCOL, sdk: "test".into(), classes, template: false };
            greeted(&hello, Role::Worker).map(|known| known.map(|classes| classes.len()))
        };
        assert_eq!(class(worker::Class::default()), Ok(Some(1)));
        let zero = worker::Class { time_limit: Some(0.0), ..worker::Class::default() };
        let said = "class \"mail.Send\" of its hello: it has a limit of 0, so no job could run";
        assert_eq!(class(zero), Err(said.into()));
        let negative = worker::Class { retry_delay: Some(-1.0), ..worker::Class::default() };
        assert!(class(negative).unwrap_err().starts_with("class \"mail.Send\" of its hello: -1"));
    }

    #[test]
    fn wait_of_more_than_a_hundred_years_is_refused() {
        assert_eq!(seconds(Some(3_155_760_000.0)), Ok(Some(NewJob::DELAY_MAX)));
        assert_eq!(
            seconds(Some(1e18)),
            Err("1000000000000000000 seconds are longer than a hundred years".into())
        );
    }

    #[test]
    fn class_limits_that_a_shared_process_cannot_hold_are_named_where_the_pool_takes_the_class() {
        let limits = Limits { memory: Some(1), processes: Some(1), ..Limits::default() };
        let class = ClassSettings { limits, ..ClassSettings::default() };
        let classes =
            BTreeMap::from([("mail.Send".into(), class), ("mail.Sort".into(), ClassSettings::default())]);
        let only = |jobs_at_once, class: &str| PoolSettings {
            jobs_at_once,
            filter: ClassFilter { only: vec![class.into()], except: Vec::new() },
            ..PoolSettings::default()
        };
        let said = unheld(&classes, &only(2, "mail.Send")).unwrap();
        assert!(said.contains(": mail.Send (memory, process); use mode prefork"), "{said}");
        assert_eq!(unheld(&classes, &only(1, "mail.Send")), None);
        assert_eq!(unheld(&classes, &only(2, "mail.Sort")), None);
    }
}
