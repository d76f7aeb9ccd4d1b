//! Starts lives in the slots that want one, not more at a time than is wise.

use std::collections::VecDeque;
use std::time::Duration;

use super::Pool;
use super::index::Kind;
use crate::Command;
use crate::restart::{BOOTS, Random};
use crate::slot::{MARGIN, Slot};
use crate::wear::Wears;
use model::{CutOff, Instant};

impl Pool {
    /// Starts lives in the slots that are down and due.
    pub(crate) fn keep_up(
        &mut self,
        now: Instant,
        lease: Duration,
        random: &mut Random,
        orders: &mut VecDeque<Command>,
    ) {
        let rules = self.settings.recycle;
        let boot_timeout = self.settings.boot_timeout;
        // A worker of one job that will have it at once: the order to make it brings its self-fence and orders the
        // lives after it.
        let has_work = self.intake.maybe_waiting || !self.ahead.is_empty();
        let in_demand = self.settings.jobs_per_life == Some(1) && has_work;
        let fence = self.fence_ahead(lease);
        let template = self.template().map(Slot::id);
        let is_due = |at: &usize| self.slots[*at].due_at().is_some_and(|due| due <= now);
        let mut due: Vec<usize> = self.startable().filter(is_due).collect();
        due.sort_by_key(|at| self.slots[*at].due_at());
        for at in due {
            let mut slot = self.slots.edit(at, &self.settings);
            let template = template.filter(|_| !slot.is_template());
            slot.start(now, boot_timeout, template, Wears::draw(rules, random));
            match template {
                Some(template) => orders.push_back(Command::Fork(slot.id(), template)),
                None => {
                    orders.push_back(Command::Spawn(slot.id()));
                    if in_demand && !slot.is_template() {
                        slot.be_followed(now, fence, orders);
                    }
                }
            }
        }
    }

    /// The keeper has made this life by itself after the one before.
    pub(crate) fn followed(&mut self, now: Instant, at: usize, lease: Duration, random: &mut Random) {
        let (boot_timeout, fence) = (self.settings.boot_timeout, self.fence_ahead(lease));
        let mut slot = self.slots.edit(at, &self.settings);
        if slot.is_down() {
            slot.follow(now, boot_timeout, Wears::draw(self.settings.recycle, random), fence);
        }
    }

    /// How long a life that has no job yet may last, so that the job is dead before its lease ends. The job may have
    /// been fetched a moment before.
    fn fence_ahead(&self, lease: Duration) -> Option<Duration> {
        let fence = lease.saturating_sub(MARGIN + lease / 16);
        (self.settings.when_cut_off == CutOff::Kill).then_some(fence)
    }

    /// When the next start is due.
    pub(crate) fn start_at(&self) -> Option<Instant> {
        self.startable().filter_map(|at| self.slots[at].due_at()).min()
    }

    /// The slots that may start. All that are down, but: without a ready template only that; while probing only one;
    /// while replacing another pool a quarter; while no worker takes jobs [`BOOTS`].
    fn startable(&self) -> impl Iterator<Item = usize> {
        let index = self.slots.index();
        let most = match (&self.boots.probing, self.rolling) {
            (Some(_), _) => 1,
            (None, true) => (self.filled() / 4).max(1),
            (None, false) => usize::MAX,
        };
        let most = if !index.has(Kind::Working) { most.min(BOOTS) } else { most };
        let at_once = most.saturating_sub(index.count(Kind::Booting));
        let forks = |template: &Slot| template.is_ready() && !template.is_leaving();
        let can_fork = self.template().is_none_or(forks);
        let down = index.all(Kind::Due);
        down.filter(move |at| can_fork || self.slots[*at].is_template()).take(at_once)
    }
}
