//! Explains why a job that depends on others waits.

use crate::cli::term::format::between;
use crate::cli::term::screen::age;
use broker::Card;
use model::verb::Ability;
use model::{JobId, JobRecord, JobState, Millis, Need};

/// What will become of a job that nobody begins in time, or that its broker has set aside.
pub(crate) fn fate(job: &JobRecord, now: Millis) -> Vec<String> {
    let expires =
        job.begin_by.map(|by| format!("It expires unless it begins within {}.", age(between(now, by))));
    let letter = job.dead_letter.as_ref().map(|fate| format!("{fate}."));
    expires.into_iter().chain(letter).collect()
}

/// The verbs that can help a job, of which brokers lack some.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Helps {
    /// Whether `job retry` is known there.
    retry: bool,
    /// Whether `job depends … off` is.
    depends: bool,
}

impl Helps {
    #[cfg(test)]
    pub(crate) const ALL: Helps = Helps { retry: true, depends: true };

    /// Those of the broker with this card; None = all.
    pub(crate) fn of(card: Option<&Card>) -> Helps {
        // Of a broker without a card nothing is known to be missing.
        let can = |ability| card.is_none_or(|card| card.can(ability));
        Helps { retry: can(Ability::Retry), depends: can(Ability::Depend) }
    }

    /// How to put back a job that has ended, as a command.
    fn retry(self, id: &JobId) -> Option<String> {
        self.retry.then(|| format!("taskvisor job retry {id}"))
    }
}

/// The jobs for which it waits, and those of them that will not complete by themselves.
pub(crate) fn sentences(job: &JobRecord, helps: Helps, now: Millis) -> Vec<String> {
    let mut said = Vec::new();
    let open: Vec<&Need> = job.needs.iter().filter(|need| !need.state.has_ended()).collect();
    if !open.is_empty() {
        let shown = open.iter().take(SHOWN).map(|need| format!("{} ({})", need.job, need.state));
        let more = open.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let are = if open.len() == 1 { "is" } else { "are" };
        let shown = shown.collect::<Vec<_>>().join(", ");
        said.push(format!("It waits until {shown}{more} {are} complete."));
    }
    said.extend(dead(job, helps));
    if said.is_empty() {
        said.push(
            "It needs no other job any more: it is set free as soon as its queue can be written.".into(),
        );
    }
    let later = job.due_at.filter(|due| *due > now);
    said.extend(later.map(|due| format!("It is also delayed for {} more.", age(between(now, due)))));
    said
}

/// The jobs for which it waits that will not complete by themselves.
pub(crate) fn dead(job: &JobRecord, helps: Helps) -> Vec<String> {
    let is_dead = |need: &&Need| need.state.has_ended() && need.state != JobState::Complete;
    let over: Vec<&Need> = job.needs.iter().filter(is_dead).collect();
    let mut said = Vec::new();
    for need in over.iter().take(SHOWN) {
        let retry = helps.retry(&need.job).map(|retry| format!("{retry} tries that again"));
        let depends = helps
            .depends
            .then(|| format!("taskvisor job depends {} off {} does without it", job.id, need.job));
        let help: Vec<String> = retry.into_iter().chain(depends).collect();
        let help = if help.is_empty() { String::new() } else { format!(": {}", help.join(", ")) };
        said.push(format!("It waits for job {}, which is {}{help}.", need.job, need.state));
    }
    if over.len() > SHOWN {
        said.push(format!("{} more that it waits for have ended like that.", over.len() - SHOWN));
    }
    said
}

/// Limit of the needed jobs that are shown.
const SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::failed_job;

    const NOW: Millis = Millis(1_790_000_060_000);

    #[test]
    fn waiting_job_lists_its_dependencies_and_those_that_cannot_complete() {
        let mut job = failed_job();
        let need = |id: &str, state| Need { job: id.into(), state };
        (job.id, job.due_at) = ("j".into(), Some(Millis(NOW.0 + 9_500)));
        job.needs = vec![
            need("a", JobState::Running),
            need("b", JobState::Failed),
            need("c", JobState::Depends),
            need("d", JobState::Canceled),
        ];
        assert_eq!(
            sentences(&job, Helps::ALL, NOW),
            [
                "It waits until a (running), c (depends) are complete.",
                "It waits for job b, which is failed: taskvisor job retry b tries that again, taskvisor job depends j off b \
                 does without it.",
                "It waits for job d, which is canceled: taskvisor job retry d tries that again, taskvisor job depends j off d \
                 does without it.",
                "It is also delayed for 9.5s more.",
            ]
        );
        let only = |retry, depends| dead(&job, Helps { retry, depends })[0].clone();
        assert_eq!(
            only(true, false),
            "It waits for job b, which is failed: taskvisor job retry b tries that again."
        );
        assert_eq!(only(false, false), "It waits for job b, which is failed.");
        (job.needs, job.due_at) = (vec![need("e", JobState::Complete)], None);
        assert!(sentences(&job, Helps::ALL, NOW)[0].starts_with("It needs no other job any more"));
        (job.needs, job.due_at) = ((0..12).map(|n| need(&n.to_string(), JobState::Waiting)).collect(), None);
        assert!(sentences(&job, Helps::ALL, NOW)[0].ends_with("9 (waiting) and 2 more are complete."));
    }
}
