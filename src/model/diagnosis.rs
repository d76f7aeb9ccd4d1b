//! What a machine lacks for a supervisor, as `doctor` finds it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

word_enum! {
    /// The weight of a finding.
    pub enum Fitness {
        /// As it should be.
        Ok => "ok",
        /// Something is missing, but taskvisor works without it.
        Less => "less",
        /// Something cannot work, or promises are not kept.
        Bad => "bad",
    }
}

/// What the machine lacks. The schema's name goes up when a field changes its meaning or disappears.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Schema of this document, always `taskvisor.doctor/1`.
    pub schema: String,
    /// Whether nothing is bad.
    pub well: bool,
    /// The findings, one for each check.
    pub checks: Vec<Finding>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What was looked at.
    pub name: String,
    /// How much it weighs.
    pub state: Fitness,
    /// What was found.
    pub found: String,
    /// What follows from it; empty if all is as it should be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// What to do about it; empty if there is nothing to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Diagnosis {
    /// The name of the schema.
    pub const SCHEMA: &'static str = "taskvisor.doctor/1";

    /// The diagnosis of these findings.
    pub fn of(checks: Vec<Finding>) -> Diagnosis {
        let well = checks.iter().all(|check| check.state != Fitness::Bad);
        Diagnosis { schema: Self::SCHEMA.into(), well, checks }
    }

    /// How many findings have this weight.
    pub fn count(&self, state: Fitness) -> usize {
        self.checks.iter().filter(|check| check.state == state).count()
    }
}

impl Finding {
    /// It is as it should be.
    pub fn ok(name: &str, found: impl Into<String>) -> Finding {
        let (effect, remedy) = (String::new(), String::new());
        Finding { name: name.into(), state: Fitness::Ok, found: found.into(), effect, remedy }
    }

    /// Something is missing that taskvisor works without.
    pub fn less(name: &str, found: impl Into<String>, effect: &str, remedy: &str) -> Finding {
        let (effect, remedy) = (effect.into(), remedy.into());
        Finding { state: Fitness::Less, effect, remedy, ..Finding::ok(name, found) }
    }

    /// What is known of the server of the jobs: the number of its queues, and a concern about it if there is one.
    pub fn of_server(url: &str, asked: Result<(usize, Option<String>), String>) -> Finding {
        match asked {
            Ok((_, Some(wrong))) => Finding::less(
                "store",
                format!("{url} answers, but {wrong}"),
                "jobs are gone with the server",
                "",
            ),
            Ok((queues, None)) => Finding::ok("store", format!("{url} answers, and has {queues} queues")),
            Err(error) => {
                Finding::bad("store", error, "no job can be put or fetched", "--broker with another URL")
            }
        }
    }

    /// Something cannot work.
    pub fn bad(name: &str, found: impl Into<String>, effect: &str, remedy: &str) -> Finding {
        Finding { state: Fitness::Bad, ..Finding::less(name, found, effect, remedy) }
    }
}
