//! How a pool fetches: for the workers that have room (and, where jobs are very short, will have room in a moment), and
//! only when jobs may be waiting.

use std::collections::VecDeque;

use super::Pool;
use crate::restart::Random;
use crate::unsettled::Unsettled;
use crate::{Command, classes};
use model::{Fetched, Instant, WorkerId};

impl Pool {
    /// Handles the answer to a fetch. Gives the workers for which the fetch was; None if none was under way.
    pub(crate) fn fetched(&mut self, jobs: &[Fetched]) -> Option<Vec<WorkerId>> {
        let is_known = |fetched: &Fetched| classes::knows(&self.settings, &fetched.job);
        let in_vain = !jobs.is_empty() && !jobs.iter().any(is_known);
        let (asked, may_wait) = self.intake.answered(jobs, in_vain)?;
        if may_wait {
            self.expect_more();
        }
        Some(asked)
    }

    /// Fetches as many jobs as the workers have room for, and some ahead.
    pub(crate) fn fetch(
        &mut self,
        now: Instant,
        random: &mut Random,
        unsettled: &mut Unsettled,
        orders: &mut VecDeque<Command>,
    ) {
        if !self.intake.may_ask() || self.intake.at() > now {
            return;
        }
        let mut workers = self.room();
        // Jobs that still run in the worn out worker take up places of its heir.
        workers.truncate(workers.len().saturating_sub(self.intake.beside));
        workers.extend(self.ahead_for());
        if workers.is_empty() {
            return;
        }
        unsettled.tell_again(now, orders);
        orders.push_back(self.intake.ask(now, (self.number, &self.settings), workers, random));
    }

    /// When to fetch; None while no worker has room, or a fetch is under way.
    pub(crate) fn fetch_at(&self) -> Option<Instant> {
        let wants = self.intake.may_ask() && (self.has_room() || !self.ahead_for().is_empty());
        wants.then(|| self.intake.at())
    }
}
