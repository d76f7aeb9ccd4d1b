//! The states in which an outage finds jobs.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::sandbox::{Sandbox, wait_until, wait_within};
use crate::servers::Server;

/// A job by what it does when an outage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs, and ends in the outage.
    Ends,
    /// It runs until after the outage.
    Runs,
    /// It has failed once, and its retry is due in the outage.
    Retries,
    /// It runs, is told to end just before the outage, and does not end by itself.
    Canceled,
    /// It waits for the job that ends in the outage.
    NeedsEnds,
    /// It waits for the job that runs until after the outage.
    NeedsRuns,
}

impl State {
    /// Each before those that wait for it.
    const ALL: [State; 6] =
        [State::Ends, State::Runs, State::NeedsEnds, State::NeedsRuns, State::Canceled, State::Retries];

    /// The state of the job for whose end it waits.
    pub fn needs(self) -> Option<State> {
        match self {
            State::NeedsEnds => Some(State::Ends),
            State::NeedsRuns => Some(State::Runs),
            State::Ends | State::Runs | State::Retries | State::Canceled => None,
        }
    }

    /// What it does after it has said that it began; `said` is where it said so.
    fn script(self, said: &str) -> String {
        match self {
            State::Ends | State::Runs => format!("until [ -e {said}.go ]; do sleep 0.02; done"),
            State::Retries => format!("[ $(grep -c begun {said}) -gt 1 ] || exit 1"),
            State::Canceled => "trap '' TERM; while :; do sleep 0.02; done".into(),
            State::NeedsEnds | State::NeedsRuns => ":".into(),
        }
    }

    /// As it is once the outage can begin.
    fn is_reached(self, job: &Told<'_>) -> bool {
        match self {
            State::Ends | State::Runs | State::Canceled => job.runs().len() == 1,
            // On a busy host it may have run again before that is seen.
            State::Retries => job.runs().len() == 2 || job.shown()["state"] == "delayed",
            State::NeedsEnds | State::NeedsRuns => job.shown()["state"] == "depends",
        }
    }
}

/// A job that says when it begins and ends, and when it runs beside itself.
pub struct Told<'a> {
    sandbox: &'a Sandbox,
    pub state: State,
    pub id: String,
}

impl<'a> Told<'a> {
    /// Puts a job for each state that the broker knows, and waits until all are in it.
    pub fn put_all(server: &Server, sandbox: &'a Sandbox) -> Vec<Told<'a>> {
        let is_known = |state: &State| state.needs().is_none() || server.broker.knows_needs();
        let states: Vec<State> = State::ALL.into_iter().filter(is_known).collect();
        let place = |state: State| states.iter().position(|one| *one == state).unwrap();
        let scripts: Vec<_> = states
            .iter()
            .map(|state| {
                let path = said_at(sandbox, *state);
                let path = path.to_str().unwrap();
                let script = format!(
                    "exec 9>>{path}.lock; flock -n 9 || echo twice >>{path}; echo begun $$ >>{path}; {}; \
                     echo ended >>{path}",
                    state.script(path)
                );
                (script, state.needs().map(place))
            })
            .collect();
        let ids = server.put(sandbox, &scripts);
        let told = states.iter().zip(ids).map(|(state, id)| Told { sandbox, state: *state, id });
        let told: Vec<Told<'a>> = told.collect();
        for one in &told {
            wait_until(&format!("{:?} can begin", one.state), || one.state.is_reached(one));
        }
        told
    }

    pub fn said(&self) -> String {
        fs::read_to_string(said_at(self.sandbox, self.state)).unwrap_or_default()
    }

    /// The pids of its runs.
    pub fn runs(&self) -> Vec<i32> {
        self.said().lines().filter_map(|line| line.strip_prefix("begun ")?.parse().ok()).collect()
    }

    pub fn go(&self) {
        fs::write(said_at(self.sandbox, self.state).with_extension("go"), "").unwrap();
    }

    pub fn has_ended(&self) -> bool {
        self.said().lines().any(|line| line == "ended")
    }

    fn shown(&self) -> Value {
        let output = self.sandbox.run(&["job", "show", &self.id, "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Asserts that the job comes to this end after `runs` runs, no two at a time, and that only its own failures count.
    pub fn assert_end(&self, end: &str, runs: usize) {
        wait_within(crate::rule::PATIENCE, &format!("{:?} is {end}", self.state), || {
            self.shown()["state"] == end
        });
        let (job, said) = (self.shown(), self.said());
        // A ledger does not know of attempts at other hosts.
        let attempt = job["attempt"].as_u64().unwrap();
        let most = if self.state == State::Retries { 2 } else { 1 };
        assert!(attempt <= most && job["interruptions"] == 0, "{:?}: {job}", self.state);
        assert!(!said.contains("twice"), "{:?}: {said}", self.state);
        let ended = usize::from(end == "complete");
        assert_eq!(
            (self.runs().len(), said.matches("ended").count()),
            (runs, ended),
            "{:?}: {said}\n{job}",
            self.state
        );
    }
}

fn said_at(sandbox: &Sandbox, state: State) -> PathBuf {
    sandbox.work(&format!("{state:?}"))
}
