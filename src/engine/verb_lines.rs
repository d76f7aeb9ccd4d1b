//! Log lines about requests of people about jobs, queues and options: who asked for what.

use tracing::Level;

use super::line::{Line, cut};
use super::orders::counted;
use model::verb::{Act, Bulk, Cancel, Verb};
use model::{JobId, QueueName};

/// Limit of the names in a line.
const NAMED: usize = 5;

/// The line of a request; None for one that only reads.
pub(super) fn line(verb: &Verb, by: &str) -> Option<Line> {
    let line = match verb {
        Verb::Cancel(asked) => cancel(asked),
        Verb::Bulk(asked) => bulk(asked)?,
        Verb::Retry(asked) => of_job(&asked.job, "is put back to waiting"),
        Verb::Discard(asked) => of_job(&asked.job, "is forgotten"),
        Verb::Prioritize(asked) => of_job(&asked.job, &format!("gets the priority {}", asked.priority)),
        Verb::DependOn(asked) => of_job(&asked.job, &format!("is to wait for {}, too", named(&asked.jobs))),
        Verb::DependOff(asked) => {
            let whom = asked.jobs.as_ref().map_or_else(|| "any job".into(), |jobs| named(jobs));
            of_job(&asked.job, &format!("waits no more for {whom}"))
        }
        Verb::SetData(asked) => of_job(&asked.job, "gets other data"),
        Verb::Tag(asked) => {
            of_job(&asked.job, &format!("has other tags: {}", tags(&asked.add, &asked.remove)))
        }
        Verb::Track(asked) => of_job(&asked.job, "is tracked"),
        Verb::Untrack(asked) => of_job(&asked.job, "is no longer tracked"),
        Verb::Pause(asked) => {
            of_queue(&asked.queue, &format!("is paused{}", because(asked.reason.as_deref())))
        }
        Verb::Resume(asked) => of_queue(&asked.queue, "is resumed"),
        Verb::Forget(asked) => of_queue(&asked.queue, "is forgotten"),
        Verb::SetOption(asked) => {
            let what = format!("is set to {}", cut(&asked.value));
            option(&asked.name, asked.queue.as_ref(), &what)
        }
        Verb::UnsetOption(asked) => {
            option(&asked.name, asked.queue.as_ref(), "is put back to what holds without it")
        }
        Verb::LoadOptions(asked) => info(match asked.clear {
            true => "options are loaded, and all others are put back",
            false => "options are loaded",
        }),
        Verb::PutRecurring(asked) => recurring(&asked.name, "is put or changed"),
        Verb::RunRecurring(asked) => recurring(&asked.name, "is put now, beside its schedule"),
        Verb::PauseRecurring(asked) => recurring(&asked.name, "is paused"),
        Verb::ResumeRecurring(asked) => recurring(&asked.name, "is resumed"),
        Verb::RemoveRecurring(asked) => recurring(&asked.name, "is removed"),
        Verb::List(_)
        | Verb::Get(_)
        | Verb::FindJobs(_)
        | Verb::Before(_)
        | Verb::Failed(_)
        | Verb::Queues(_)
        | Verb::ListRecurring(_)
        | Verb::ShowRecurring(_)
        | Verb::Stats(_)
        | Verb::ClassStats(_)
        | Verb::ShowOptions(_)
        | Verb::ShowFleet(_) => return None,
    };
    Some(line.by(by))
}

fn info(message: impl Into<String>) -> Line {
    Line::new(Level::INFO, message)
}

fn of_job(job: &JobId, what: &str) -> Line {
    info(format!("a job {what}")).job(job)
}

fn of_queue(queue: &QueueName, what: &str) -> Line {
    Line { queue: Some(queue.clone()), ..info(format!("a queue {what}")) }
}

fn option(name: &str, queue: Option<&QueueName>, what: &str) -> Line {
    Line { queue: queue.cloned(), ..info(format!("option {} {what}", cut(name))) }
}

fn recurring(name: &str, what: &str) -> Line {
    info(format!("the recurring job {} {what}", cut(name)))
}

fn cancel(asked: &Cancel) -> Line {
    let why = because(asked.reason.as_deref());
    match asked.jobs.as_slice() {
        [only] => info(format!("a job is to be canceled{why}")).job(only),
        many => info(format!("{} are to be canceled{why}", counted(many.len(), "job"))),
    }
}

fn bulk(asked: &Bulk) -> Option<Line> {
    let what = match asked.act {
        Act::Retry => "put back to waiting",
        Act::Discard => "forgotten",
    };
    (!asked.dry_run).then(|| info(format!("jobs that are {} are {what}", asked.state)))
}

/// Some ids, and how many more there are.
fn named(jobs: &[JobId]) -> String {
    let named: Vec<_> = jobs.iter().take(NAMED).map(JobId::shown).collect();
    let more = jobs.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

fn tags(add: &[String], remove: &[String]) -> String {
    let signed =
        |sign, tags: &[String]| tags.iter().take(NAMED).map(|tag| format!("{sign}{tag}")).collect::<Vec<_>>();
    cut(&[signed('+', add), signed('-', remove)].concat().join(" "))
}

/// The reason that a person gave, to append to the line.
fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {}", cut(reason))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::verb::{DependOff, Get, UnsetOption};

    #[test]
    fn a_request_is_a_sentence_with_its_author() {
        let cancel = Cancel { jobs: vec!["a".into()], dependents: false, reason: Some("a typo".into()) };
        let said = line(&Verb::Cancel(cancel), "uid 7").unwrap();
        assert_eq!((said.job, said.by.as_deref()), (Some("a".into()), Some("uid 7")));
        assert_eq!(said.message, "a job is to be canceled: a typo");
        assert_eq!(line(&Verb::Get(Get { job: "a".into() }), "uid 7"), None);
        let unset = UnsetOption { name: "keep_failed".into(), queue: Some("mail".into()) };
        let said = line(&Verb::UnsetOption(unset), "uid 7").unwrap();
        assert_eq!(said.message, "option keep_failed is put back to what holds without it");
        assert_eq!(said.queue, Some("mail".into()));
        let off = DependOff { job: "a".into(), jobs: None };
        assert_eq!(line(&Verb::DependOff(off), "").unwrap().message, "a job waits no more for any job");
    }
}
