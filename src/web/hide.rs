//! What `--hide-data` takes from jobs before anything of them is drawn: all texts that come from their data or programs.

use model::{Failure, Forensics, Happened, JobRecord, Picture, Process, Snapshot, Why};

use crate::json::Redact;

/// Shown in place of a program's name where data is hidden.
const PROCESS: &str = "process";

/// Shown in place of the warning of a worker where data is hidden.
const WARNED: &str = "a fault of the application, whose text is hidden here";

impl Redact {
    /// A text that a job has said, or nothing.
    pub fn said<'a>(&self, text: &'a str) -> &'a str {
        if self.all { "" } else { text }
    }

    /// A fault of the application that a worker warns of: its text may be that of an exception.
    pub fn warned<'a>(&self, text: &'a str) -> &'a str {
        if self.all { WARNED } else { text }
    }

    /// What a job is, in a line: a title has the beginning of the data, or the command.
    pub fn title<'a>(&self, class: &'a str, title: Option<&'a str>) -> &'a str {
        let is_program = class == model::Class::EXEC;
        // The title of a program is its command, which has no fields: only hiding all hides it.
        title.filter(|_| !self.hides_some() || is_program && !self.all).unwrap_or(class)
    }

    /// What processes do, as it may be shown.
    pub fn picture(&self, mut picture: Picture) -> Picture {
        if self.all {
            snapshot(&mut picture.seen);
        }
        picture
    }

    /// The answer with its job, its workers and their processes as they may be shown.
    pub fn why(&self, mut why: Why) -> Why {
        if self.all {
            why.job.iter_mut().for_each(job);
            why.snapshot.iter_mut().for_each(snapshot);
            // Behind the first colon stands why: for a job that failed, its message.
            for decision in &mut why.decisions {
                let end = decision.what.find(": ").unwrap_or(decision.what.len());
                decision.what.truncate(end);
            }
            for (pool, _) in &mut why.pools {
                for slot in pool.slots.iter_mut().chain(&mut pool.template) {
                    slot.trace = None;
                    slot.warning.iter_mut().for_each(|warning| WARNED.clone_into(warning));
                    slot.process.iter_mut().for_each(process);
                }
            }
        }
        why
    }
}

fn job(job: &mut JobRecord) {
    job.failure.iter_mut().for_each(failure);
    job.forensics.iter_mut().for_each(forensics);
    job.progress.iter_mut().for_each(|progress| progress.message = None);
    for entry in &mut job.history {
        if let Happened::Attempt(attempt) = &mut entry.what {
            attempt.failure.iter_mut().for_each(failure);
            attempt.forensics.iter_mut().for_each(forensics);
        }
    }
}

fn failure(failure: &mut Failure) {
    (failure.message, failure.trace) = (String::new(), None);
}

fn forensics(left: &mut Forensics) {
    left.stderr_tail.clear();
    left.left.iter_mut().for_each(|still| PROCESS.clone_into(still));
    left.snapshot.iter_mut().for_each(|seen| snapshot(seen));
}

fn snapshot(seen: &mut Snapshot) {
    for process in &mut seen.processes {
        PROCESS.clone_into(&mut process.name);
        process.open.clear();
        process.stacks = None;
    }
}

fn process(top: &mut Process) {
    PROCESS.clone_into(&mut top.name);
    top.children.iter_mut().for_each(process);
}
