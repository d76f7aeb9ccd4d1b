//! The calls of a worker to the supervisor, and their answers.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;

use crate::{End, Put};

/// A verb of `call` with its arguments, as JSON text.
pub(crate) struct Ask {
    pub(crate) verb: &'static str,
    pub(crate) args: String,
}

impl Ask {
    pub(crate) fn put(jobs: &[Put]) -> Ask {
        Ask { verb: "put", args: json!({ "jobs": jobs }).to_string() }
    }

    pub(crate) fn cancel(id: &str) -> Ask {
        Ask { verb: "cancel", args: json!({ "id": id }).to_string() }
    }

    pub(crate) fn job(id: &str) -> Ask {
        Ask { verb: "job", args: json!({ "id": id }).to_string() }
    }

    pub(crate) fn data(id: &str, fence: u64, data: &impl Serialize) -> Result<Ask, End> {
        let data = serde_json::value::to_raw_value(data)?;
        Ok(Ask { verb: "data", args: json!({ "id": id, "fence": fence, "data": data }).to_string() })
    }

    pub(crate) fn stopped(id: &str, fence: u64) -> Ask {
        Ask { verb: "stopped", args: json!({ "id": id, "fence": fence }).to_string() }
    }

    pub(crate) fn priority(id: &str, priority: i32) -> Ask {
        Ask { verb: "priority", args: json!({ "id": id, "priority": priority }).to_string() }
    }

    pub(crate) fn tag(id: &str, add: &[&str], remove: &[&str]) -> Ask {
        Ask { verb: "tag", args: json!({ "id": id, "add": add, "remove": remove }).to_string() }
    }

    pub(crate) fn track(id: &str, tracked: bool) -> Ask {
        let verb = if tracked { "track" } else { "untrack" };
        Ask { verb, args: json!({ "id": id }).to_string() }
    }
}

/// A field of an answer.
pub(crate) fn field<T: DeserializeOwned>(answer: &RawValue, name: &str) -> Result<T, End> {
    let mut answer: serde_json::Value = serde_json::from_str(answer.get())?;
    Ok(serde_json::from_value(answer[name].take())?)
}

/// The methods of a job that make calls, for both kinds of workers.
macro_rules! verbs {
    ($type:ty $(, $async:tt, $await:tt)?) => {
        impl $type {
            /// Queues a job, and gives its id once it cannot be lost.
            ///
            /// # Errors
            ///
            /// If the supervisor refuses it, or is gone.
            pub $($async)? fn put(&self, job: &$crate::Put) -> Result<String, $crate::End> {
                let ids = self.put_all(std::slice::from_ref(job))$(.$await)??;
                Ok(ids.into_iter().next().unwrap_or_default())
            }

            /// Queues jobs, all or none, and gives their ids in order once none can be lost.
            ///
            /// # Errors
            ///
            /// If the supervisor refuses one, or is gone.
            pub $($async)? fn put_all(&self, jobs: &[$crate::Put]) -> Result<Vec<String>, $crate::End> {
                let answer = self.ask($crate::verbs::Ask::put(jobs))$(.$await)??;
                $crate::verbs::field(&answer, "ids")
            }

            /// Cancels a job, and gives its new state; a running job may go on for its grace.
            ///
            /// # Errors
            ///
            /// If there is no such job, or it has ended.
            pub $($async)? fn cancel(&self, id: &str) -> Result<String, $crate::End> {
                let answer = self.ask($crate::verbs::Ask::cancel(id))$(.$await)??;
                $crate::verbs::field(&answer, "state")
            }

            /// A job, as `taskvisor job show --json` prints it.
            ///
            /// # Errors
            ///
            /// If there is no such job.
            pub $($async)? fn look_up(&self, id: &str) -> Result<serde_json::Value, $crate::End> {
                let answer = self.ask($crate::verbs::Ask::job(id))$(.$await)??;
                Ok(serde_json::from_str(answer.get())?)
            }

            /// Changes the data of this job, from its next attempt or queue on.
            ///
            /// # Errors
            ///
            /// If the lease of this job is lost.
            pub $($async)? fn set_data(&self, data: &impl serde::Serialize) -> Result<(), $crate::End> {
                let ask = $crate::verbs::Ask::data(self.id(), self.facts.fence, data)?;
                self.ask(ask)$(.$await)?.map(drop)
            }

            /// Changes the priority of a job.
            ///
            /// # Errors
            ///
            /// If there is no such job, or it has ended.
            pub $($async)? fn set_priority(&self, id: &str, priority: i32) -> Result<(), $crate::End> {
                self.ask($crate::verbs::Ask::priority(id, priority))$(.$await)?.map(drop)
            }

            /// Adds tags to a job and removes others; gives all its tags.
            ///
            /// # Errors
            ///
            /// If there is no such job.
            pub $($async)? fn tag(
                &self,
                id: &str,
                add: &[&str],
                remove: &[&str],
            ) -> Result<Vec<String>, $crate::End> {
                let answer = self.ask($crate::verbs::Ask::tag(id, add, remove))$(.$await)??;
                $crate::verbs::field(&answer, "tags")
            }

            /// Tracks a job for people, or stops tracking it.
            ///
            /// # Errors
            ///
            /// If there is no such job.
            pub $($async)? fn track(&self, id: &str, tracked: bool) -> Result<(), $crate::End> {
                self.ask($crate::verbs::Ask::track(id, tracked))$(.$await)?.map(drop)
            }
        }
    };
}
pub(crate) use verbs;
