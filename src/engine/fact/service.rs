//! What happens to the service as a whole, and what people order.

use std::time::Duration;

use tracing::Level;

use super::row::Row;
use crate::flood::Kind;
use model::{Change, Health, Scale, Stop, What};

/// What has happened to the service, or was ordered of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OfService {
    /// Jobs may wait.
    Woken,
    /// Leases are to be renewed: how many.
    Renewing(usize),
    /// A person changes a pool, or all.
    Changed {
        /// The pool; None = all.
        pool: Option<Box<str>>,
        /// The change that was ordered.
        change: Change,
        /// Who ordered it.
        by: Box<str>,
        /// The reason that was given.
        reason: Option<Box<str>>,
    },
    /// A person stops the service.
    Stopping {
        /// Whether running jobs may end by themselves.
        stage: Stop,
        /// Who ordered it.
        by: Box<str>,
        /// What it waits for, and when each signal comes.
        plan: Box<str>,
        /// Time from the order to the last KILL.
        deadline: Duration,
    },
    /// Other settings are in force.
    Reloaded {
        /// Their file; None = there is none, and nothing has changed.
        file: Option<Box<str>>,
        /// What changes, by pool.
        steps: Box<str>,
        /// Who ordered it.
        by: Box<str>,
    },
    /// Other settings were refused.
    ReloadRefused {
        /// The error in them.
        why: Box<str>,
        /// Who ordered it.
        by: Box<str>,
    },
    /// The health of the service or its reasons have changed.
    Judged {
        /// The health until now, and for how long it held.
        before: (Health, Duration),
        /// The health from now on.
        health: Health,
        /// Its reasons; empty for a healthy one.
        reasons: Box<str>,
    },
}

impl OfService {
    pub(super) fn row(&self, to: &mut dyn FnMut(&Row<'_>)) {
        let (row, info) = (Row::default(), Level::INFO);
        let by = |by| Row { by: Some(by), ..Row::default().seldom().flood(Kind::Orders) };
        match self {
            OfService::Woken => to(&row.says(Level::TRACE, format_args!("jobs may wait"))),
            OfService::Renewing(leases) => {
                to(&row.says(Level::TRACE, format_args!("{leases} leases are renewed")));
            }
            OfService::Changed { pool, change, by: author, reason } => {
                let row = Row { pool: pool.as_deref(), ..by(author) };
                changed(*change, reason.as_deref(), row, to);
            }
            OfService::Stopping { stage, by: author, plan, .. } => {
                let stage = match stage {
                    Stop::Drain => "drain",
                    Stop::Terminate => "terminate",
                    Stop::Kill => "kill",
                };
                // Counted apart: a script that scales often must not hide a stop.
                let row = by(author).flood(Kind::Stops).event(What::Stopping).detail(&stage);
                to(&row.says(info, format_args!("a stop was ordered: {plan}")));
            }
            OfService::Reloaded { file, steps, by: author } => {
                let row = by(author).event(What::Reloaded).detail(steps);
                match file {
                    Some(file) => to(&row.says(info, format_args!("settings reloaded from {file}: {steps}"))),
                    None => {
                        let text = "nothing to reload: it was started without a file";
                        to(&row.says(info, format_args!("{text}")));
                    }
                }
            }
            OfService::ReloadRefused { why, by: author } => {
                let row = by(author).event(What::ReloadRefused).detail(why);
                let text = format_args!("settings not reloaded, nothing was changed: {why}");
                to(&row.says(Level::ERROR, text));
            }
            OfService::Judged { before: (before, held), health, reasons } => {
                let row = Row { health: Some((*before, *health)), ..row.event(What::Health) };
                let row = if reasons.is_empty() { row } else { row.detail(reasons) };
                match health {
                    Health::Healthy => {
                        to(&row.says(info, format_args!("healthy again after {} s", held.as_secs())));
                    }
                    Health::Degraded | Health::Unhealthy => {
                        to(&row.says(Level::WARN, format_args!("{}: {reasons}", health.as_str())));
                    }
                }
            }
        }
    }
}

/// The row of a person's change.
fn changed(change: Change, reason: Option<&str>, row: Row<'_>, to: &mut dyn FnMut(&Row<'_>)) {
    let whose = row.pool.map_or_else(|| "all pools".to_owned(), |pool| format!("pool {pool}"));
    let because = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let (event, detail, message) = match change {
        Change::Recycle => {
            (What::Recycled, None, format!("the workers of {whose} are exchanged for new ones"))
        }
        Change::Pause => {
            let reason = reason.map(ToOwned::to_owned);
            (What::Paused, reason, format!("paused: {whose} will take no more jobs until resumed"))
        }
        Change::Resume => (What::Resumed, None, format!("resumed: {whose} will take jobs again")),
        Change::Scale(Scale::To(workers)) => {
            let message = format!("scaled: {whose} will have {workers} workers");
            (What::Scaled, Some(format!("to {workers}")), message)
        }
        Change::Scale(Scale::By(more)) => {
            let message = format!("scaled: {whose} will have {more:+} workers");
            (What::Scaled, Some(format!("by {more:+}")), message)
        }
    };
    let row = detail.iter().fold(row.event(event), |row, detail| row.detail(detail));
    to(&row.says(Level::INFO, format_args!("{message}{because}")));
}
