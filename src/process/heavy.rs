//! The memory that a worker has before its first job: too much for any job, or as much as its pool recycles at.

use tracing::warn;

use super::life::{Life, LifeContext};
use super::plan::{Plan, Role};
use super::weight::Tree;
use model::size;

impl Life {
    /// Refuses a worker whose memory exceeds its jobs' limit before it has any job: it would see all of them killed.
    /// Memory of a template is shared by its forks.
    pub(super) fn is_light(&self, plan: &Plan) -> Result<(), String> {
        let Some(limit) = plan.settings.limits.memory else { return Ok(()) };
        let (who, sharers) = match self.role {
            // The template and all its forks.
            Role::Template => ("each fork of it takes", u64::from(plan.settings.workers) + 1),
            Role::Worker | Role::Parked | Role::Child => ("it takes", 1),
        };
        let tree = Tree::of(self.pid, usize::MAX);
        // The cheap figure first, which is never less than the exact one.
        if tree.resident() / sharers <= limit || tree.memory() / sharers <= limit {
            return Ok(());
        }
        let (taken, limit) = (size(tree.memory() / sharers), size(limit));
        Err(format!("{who} {taken} of memory before its first job, and limits.memory of its pool is {limit}"))
    }

    /// Notes that a new worker has more memory than its pool recycles at. Each next one would be as large, so it is
    /// replaced once it has grown to twice that.
    pub(super) fn weighs_already(&mut self, around: &LifeContext<'_>) {
        let Some(most) = around.plan.settings.recycle.memory.filter(|_| self.role == Role::Worker) else {
            return;
        };
        let tree = Tree::of(self.pid, usize::MAX);
        // Never less than the exact figure, which costs a walk through all pages.
        if tree.resident() <= most {
            return;
        }
        let taken = tree.memory();
        if taken > most {
            self.heavy = Some(taken);
            let text = already_heavy(taken, most);
            around.log_warning(&text);
            let others = self.told.warning.take().map(|others| format!("\n{others}")).unwrap_or_default();
            self.told.warning = Some(text + &others);
        }
    }

    /// The memory above which it is recycled after a job, if there is a limit.
    pub(super) fn recycled_at(&self, plan: &Plan) -> Option<u64> {
        let most = plan.settings.recycle.memory?;
        Some(self.heavy.map_or(most, grown))
    }
}

impl LifeContext<'_> {
    /// Logs warnings of a worker, or about it.
    pub(super) fn log_warning(&self, text: &str) {
        let pool = self.plan.settings.name.as_str();
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        warn!(worker = self.plan.name(self.worker), pool, "a worker warns: {line}");
    }
}

/// The factor by which a worker may grow if it exceeds `recycle.memory` before its first job.
fn grown(fresh: u64) -> u64 {
    fresh.saturating_mul(2)
}

fn already_heavy(taken: u64, most: u64) -> String {
    format!(
        "it takes {} of memory before its first job, and recycle.memory of its pool is {}: a new worker is no smaller, so \
         it is replaced above {} only",
        size(taken),
        size(most),
        size(grown(taken)),
    )
}
