//! What the log and subscribers are told of a request that changes something: a sentence, and what it is about.

use super::{Act, Bulk, Cancel};
use crate::{JobId, QueueName, What, quoted};

/// Limit of the names in a sentence.
const NAMED: usize = 5;

/// The sentence about a request, without who asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The sentence for the log.
    pub message: String,
    /// The one job that it is about.
    pub job: Option<JobId>,
    /// The queue that it is about; None = all, or it is about something else.
    pub queue: Option<QueueName>,
    /// The kind of the event for subscribers, and the text beside it. None where the broker publishes the event itself.
    pub event: Option<(What, Option<String>)>,
}

impl Said {
    pub(super) fn new(message: impl Into<String>) -> Said {
        Said { message: message.into(), job: None, queue: None, event: None }
    }

    pub(super) fn event(self, what: What, why: Option<String>) -> Said {
        Said { event: Some((what, why)), ..self }
    }
}

pub(super) fn of_job(job: &JobId, what: &str) -> Said {
    Said { job: Some(job.clone()), ..Said::new(format!("a job {what}")) }
}

pub(super) fn of_queue(queue: &QueueName, what: &str) -> Said {
    Said { queue: Some(queue.clone()), ..Said::new(format!("a queue {what}")) }
}

pub(super) fn option(name: &str, queue: Option<&QueueName>, what: &str) -> Said {
    Said { queue: queue.cloned(), ..Said::new(format!("option {} {what}", quoted(name))) }
}

pub(super) fn recurring(name: &str, what: &str) -> Said {
    Said::new(format!("the recurring job {} {what}", quoted(name)))
}

pub(super) fn cancel(asked: &Cancel) -> Said {
    let why = because(asked.reason.as_deref());
    match asked.jobs.as_slice() {
        [only] => of_job(only, &format!("is to be canceled{why}")),
        many => Said::new(format!("{} jobs are to be canceled{why}", many.len())),
    }
}

/// None for a dry run, which changes nothing.
pub(super) fn bulk(asked: &Bulk) -> Option<Said> {
    let what = match asked.act {
        Act::Retry => "put back to waiting",
        Act::Discard => "forgotten",
    };
    (!asked.dry_run).then(|| Said::new(format!("jobs that are {} are {what}", asked.state)))
}

/// Some ids, and how many more there are.
pub(super) fn named(jobs: &[JobId]) -> String {
    let named: Vec<_> = jobs.iter().take(NAMED).map(JobId::shown).collect();
    let more = jobs.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// Tags that are added and removed, as `+one -other`: five of each at most.
pub(super) fn tags(add: &[String], remove: &[String]) -> String {
    let signed =
        |sign, tags: &[String]| tags.iter().take(NAMED).map(|tag| format!("{sign}{tag}")).collect::<Vec<_>>();
    quoted(&[signed('+', add), signed('-', remove)].concat().join(" "))
}

/// The reason that a person gave, to append to a sentence.
pub(super) fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {}", quoted(reason))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{DependOff, Get, Pause, UnsetOption, VerbRequest};
    use super::*;

    fn said(asked: impl VerbRequest) -> Option<Said> {
        asked.verb().notice()
    }

    #[test]
    fn a_request_that_changes_something_is_a_sentence() {
        let cancel = Cancel { jobs: vec!["a".into()], dependents: false, reason: Some("a typo".into()) };
        let canceled = Said { job: Some("a".into()), ..Said::new("a job is to be canceled: a typo") };
        assert_eq!(said(cancel), Some(canceled));
        assert_eq!(said(Get { job: "a".into() }), None);
        let unset = UnsetOption { name: "keep_failed".into(), queue: Some("mail".into()) };
        let told = said(unset).unwrap();
        assert_eq!(told.message, "option keep_failed is put back to what holds without it");
        assert_eq!(told.queue, Some("mail".into()));
        let off = DependOff { job: "a".into(), jobs: None };
        assert_eq!(said(off).unwrap().message, "a job waits no more for any job");
    }

    #[test]
    fn requests_about_queues_are_events_with_the_reason() {
        let pause = Pause { queue: "mail".into(), reason: Some("upgrade".into()) };
        assert_eq!(said(pause).unwrap().event, Some((What::Paused, Some("upgrade".into()))));
    }
}
