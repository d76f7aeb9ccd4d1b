//! The hosts of the supervisors that share the jobs, from the presence of each.

use super::Access;
use failure::{Failure, exit};
use model::verb::ShowFleet;
use model::{Class, Fleet, Happened, Instance, JobRecord, Member, QueueName};

/// The supervisors, if other hosts may share the jobs.
#[derive(Default)]
pub(crate) struct Hosts {
    /// Whether other hosts may share the jobs.
    pub shared: bool,
    /// Whether there is no other supervisor, which the embedded store has not.
    alone: bool,
    members: Vec<Member>,
}

impl Hosts {
    /// Asks for the supervisors. Without an answer the result is empty, as the command can do without it.
    pub(crate) async fn of(access: &Access) -> Hosts {
        Hosts::look(access).await.unwrap_or_default()
    }

    /// Asks for the supervisors.
    pub(crate) async fn look(access: &Access) -> Result<Hosts, Failure> {
        Hosts::of_answer(access.ask(ShowFleet { jobs: false }).await)
    }

    /// If the store is not shared, its broker cannot show supervisors, which is no failure.
    fn of_answer(answer: Result<Fleet, Failure>) -> Result<Hosts, Failure> {
        match answer {
            Ok(fleet) => Ok(Hosts { shared: true, alone: false, members: fleet.supervisors }),
            Err(refused) if refused.code == exit::UNSUPPORTED => {
                Ok(Hosts { alone: true, ..Hosts::default() })
            }
            Err(failure) => Err(failure),
        }
    }

    /// An instance with its host, if that is known.
    pub(crate) fn place(&self, instance: &Instance) -> String {
        let member = self.members.iter().find(|member| member.instance == instance.as_str());
        match member {
            Some(Member { host, silent: true, .. }) => format!("{instance} on {host} (which is SILENT)"),
            Some(Member { host, .. }) => format!("{instance} on {host}"),
            None => instance.to_string(),
        }
    }

    /// Adds the host to each instance in a job's data, for people. Where there is one supervisor, none is named.
    pub(crate) fn name_in(&self, job: &mut JobRecord) {
        if self.alone {
            job.instance = None;
        }
        let attempts = job.history.iter_mut().filter_map(|entry| match &mut entry.what {
            Happened::Attempt(attempt) => attempt.instance.as_mut(),
            Happened::Canceled { .. } | Happened::Retried { .. } => None,
            Happened::Edited { .. } | Happened::Advanced { .. } | Happened::Noted { .. } => None,
        });
        for instance in attempts.chain(job.instance.as_mut()) {
            *instance = self.place(instance).as_str().into();
        }
    }

    /// The hosts of living supervisors that take jobs from a queue.
    pub(crate) fn that_take(&self, queue: &QueueName) -> Vec<String> {
        let takes = self.members.iter().filter(|member| member.takes(queue));
        let mut hosts: Vec<String> = takes.map(|member| member.host.clone()).collect();
        // The supervisors come by host, so those of one host are neighbours.
        hosts.dedup();
        hosts
    }

    /// The classes that the workers of a queue know, if that is known and this one is none of them.
    pub(crate) fn known_instead(&self, queue: &QueueName, class: &Class) -> Option<Vec<Class>> {
        Member::known_instead(&self.members, queue, class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::record::page::tests::failed_job;
    use broker::Error;
    use model::PoolSign;
    use model::verb::Ability;

    fn hosts() -> Hosts {
        let classes = vec!["mail.Send".into()];
        let pool = PoolSign { queues: vec!["mail".into()], classes, ..PoolSign::default() };
        let member = |host: &str, instance: &str| Member {
            host: host.into(),
            instance: instance.into(),
            pools: vec![pool.clone()],
            ..Member::default()
        };
        let silent = Member { silent: true, ..member("beta", "i-2") };
        Hosts { shared: true, alone: false, members: vec![member("alpha", "q1-1"), silent] }
    }

    #[test]
    fn an_instance_is_shown_with_its_host() {
        let mut job = failed_job();
        hosts().name_in(&mut job);
        assert_eq!(job.instance.as_ref().unwrap().as_str(), "q1-1 on alpha");
        assert_eq!(hosts().place(&"i-2".into()), "i-2 on beta (which is SILENT)");
        assert_eq!(hosts().place(&"i-3".into()), "i-3");
        Hosts { alone: true, ..Hosts::default() }.name_in(&mut job);
        assert_eq!(job.instance, None);
    }

    #[test]
    fn only_a_broker_that_cannot_show_supervisors_is_taken_for_not_shared() {
        let (ability, instead) = (Ability::Fleet, "");
        let unsupported = Error::Unsupported { broker: "sqlite", ability, instead };
        assert!(Hosts::of_answer(Err(unsupported.into())).is_ok_and(|hosts| !hosts.shared));
        for failure in
            [Error::Failed("LOADING".into()).into(), Failure::new(exit::FAILED, "connection reset")]
        {
            assert!(Hosts::of_answer(Err(failure)).is_err());
        }
    }

    #[test]
    fn class_is_missed_only_where_all_workers_of_its_queue_have_said_what_they_know() {
        let known = |hosts: &Hosts, class: &str| hosts.known_instead(&"mail".into(), &class.into());
        assert_eq!(known(&hosts(), "mail.Sned"), Some(vec!["mail.Send".into()]));
        assert_eq!(known(&hosts(), "mail.Send"), None);
        assert_eq!(
            hosts().known_instead(&"other".into(), &"mail.Sned".into()),
            None,
            "nobody takes that queue"
        );
        let mut other = hosts();
        other.members[1].silent = false;
        other.members[1].pools[0].classes = Vec::new();
        assert_eq!(known(&other, "mail.Sned"), None, "the other has not said");
        other.members[1].pools[0].classes = vec!["mail.Sned".into()];
        assert_eq!(known(&other, "mail.Sned"), None, "the other knows it");
    }

    #[test]
    fn silent_supervisor_counts_for_no_queue() {
        assert_eq!(hosts().that_take(&"mail".into()), ["alpha"]);
        assert!(hosts().that_take(&"other".into()).is_empty());
    }
}
