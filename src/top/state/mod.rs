//! What the screen knows, and how news change it.

pub mod lists;
pub mod pane;
pub mod rates;
pub mod slots;
pub mod table;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::pane::Pane;
use self::rates::Rates;
use self::slots::{Cpu, How};
use self::table::Table;
use crate::ask::{Kind, List, News, Request, Seen, Want};
use crate::layout::layout;
use crate::order::Order;
use crate::thing::{Tab, Thing};
use model::verb::FailureGroup;
use model::{
    Fleet, JobRecord, Millis, PublishedEvent, QueueCounts, QueueName, RecurringRecord, SlotStatus, Status,
};
use term::screen::Look;

/// Limit of the events that are remembered.
const EVENTS: usize = 500;

/// What is typed into the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing: the keys are orders.
    Keys,
    /// The filter of the tab.
    Filter,
    /// The name of an action, and which of those that fit.
    Palette(String, usize),
    /// Whether to carry this out.
    Confirm(Order),
}

/// What is selected, marked, sorted and filtered in a tab.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The selected thing, and its line.
    pub at: Option<Thing>,
    /// The line of it.
    pub line: usize,
    /// The first line on the screen.
    pub top: usize,
    /// What is marked, for an order about many.
    pub marks: BTreeSet<Thing>,
    /// Which of [`Tab::sorts`].
    pub sort: usize,
    /// The filter, as typed.
    pub filter: String,
}

/// A line about what was done or happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its words, one line.
    pub text: String,
    /// Whether it is a failure.
    pub is_bad: bool,
}

/// What was seen, as far as it was.
#[derive(Debug, Default)]
pub struct Data {
    /// When that was; None = nothing was seen yet.
    pub at: Option<Millis>,
    /// Where that was.
    pub place: String,
    /// The supervisor, if one runs.
    pub status: Option<Status>,
    /// How much processes of this host wait, if it is this host.
    pub pressure: Option<[f32; 3]>,
    /// Queues, by name.
    pub queues: BTreeMap<QueueName, QueueCounts>,
    /// Jobs, newest first.
    pub jobs: Vec<JobRecord>,
    /// Failures by group.
    pub failures: Vec<FailureGroup>,
    /// Recurring jobs, by name.
    pub recurring: Vec<RecurringRecord>,
    /// The supervisors of the fleet.
    pub fleet: Option<Fleet>,
    /// What happened, numbered.
    pub events: VecDeque<(u64, PublishedEvent)>,
    /// Why a tab has no list.
    pub refused: BTreeMap<Tab, String>,
}

/// All that the screen knows.
#[derive(Debug)]
pub struct Model {
    /// How to draw.
    pub look: Look,
    /// Columns and lines.
    pub size: (usize, usize),
    /// Whether orders are refused.
    pub read_only: bool,
    /// How commands begin that do the same as an order: `taskvisor `, with options that lead to the same jobs.
    pub program: String,
    /// What was seen.
    pub data: Data,
    /// Why nothing is seen now.
    pub trouble: Option<String>,
    /// Jobs that ended a second, and jobs that wait, in the latest looks.
    pub rates: Rates,
    /// What slots use of a CPU.
    pub cpu: Cpu,
    /// The tab that is open.
    pub tab: Tab,
    places: [Place; 7],
    /// Whether slots are a tree.
    pub tree: bool,
    /// Whether nothing is looked at.
    pub frozen: bool,
    /// The lines of the tab.
    pub table: Table,
    /// What is shown of the selected thing.
    pub pane: Pane,
    /// What is typed.
    pub line: Line,
    /// Whether the keys are explained.
    pub help: bool,
    /// What was done or happened last.
    pub said: Option<Said>,
    /// How many orders of this screen are under way.
    pub doing: usize,
    /// Number of the next event.
    numbered: u64,
}

impl Model {
    /// Nothing was seen yet.
    pub fn new(look: Look, size: (usize, usize), read_only: bool) -> Model {
        Model {
            // Nothing is cut before the grid, which has its own size.
            look: Look { width: None, height: None, ..look },
            size,
            read_only,
            program: "taskvisor ".into(),
            data: Data::default(),
            trouble: None,
            rates: Rates::default(),
            cpu: Cpu::default(),
            tab: Tab::Slots,
            places: Default::default(),
            tree: true,
            frozen: false,
            table: Table::default(),
            pane: Pane::default(),
            line: Line::Keys,
            help: false,
            said: None,
            doing: 0,
            numbered: 0,
        }
    }

    /// Where one is in this tab.
    pub fn place(&self) -> &Place {
        &self.places[self.tab as usize]
    }

    /// The same, to change it.
    pub fn place_mut(&mut self) -> &mut Place {
        &mut self.places[self.tab as usize]
    }

    /// What to look at next.
    pub fn want(&self) -> Want {
        let filter = self.place().filter.trim();
        let is_search = self.tab == Tab::Jobs && !filter.is_empty();
        Want { tab: self.tab, search: is_search.then(|| filter.to_owned()) }
    }

    /// The words that the lines here are looked through for. Jobs are found by the store, which knows more of them.
    fn words(&self) -> Vec<String> {
        let words = self.place().filter.split_whitespace().filter(|_| self.tab != Tab::Jobs);
        words.map(str::to_lowercase).collect()
    }

    /// Makes the lines of the tab anew, and finds the selected thing among them.
    pub fn rebuild(&mut self) {
        let (words, sort) = (self.words(), self.tab.sorts()[self.place().sort]);
        let (data, look) = (&self.data, &self.look);
        let now = data.at.unwrap_or(Millis(0));
        self.table = match self.tab {
            Tab::Slots => match &data.status {
                Some(status) => {
                    slots::table(status, &self.cpu, &How { look, tree: self.tree, sort, words: &words })
                }
                None => Table::default(),
            },
            Tab::Queues => lists::queues(&data.queues, &self.rates, now, look, sort, &words),
            Tab::Jobs => lists::jobs(&data.jobs, now, sort, &words),
            Tab::Failures => lists::failures(&data.failures, now, sort, &words),
            Tab::Recurring => lists::recurring(&data.recurring, now, sort, &words),
            Tab::Fleet => {
                data.fleet.as_ref().map_or_else(Table::default, |all| lists::fleet(all, sort, &words))
            }
            Tab::Events => lists::events(&data.events, look, &words),
        };
        let shown: BTreeSet<&Thing> = self.table.rows.iter().map(|row| &row.thing).collect();
        // An order is about nothing that cannot be seen.
        self.places[self.tab as usize].marks.retain(|thing| shown.contains(thing));
        let at = self.place().at.clone();
        let found = at.and_then(|at| self.table.rows.iter().position(|row| row.thing == at));
        self.select(found.unwrap_or(self.place().line));
    }

    /// Selects a line, or the last one before it.
    pub fn select(&mut self, line: usize) {
        let all = self.table.rows.len();
        let line = line.min(all.saturating_sub(1));
        let at = self.table.rows.get(line).map(|row| row.thing.clone());
        let room = layout(self.size, false).table.len().max(1);
        let place = self.place_mut();
        (place.line, place.at) = (line, at);
        // It scrolls no further than the line needs to be seen, and not past the end.
        place.top = place.top.clamp((line + 1).saturating_sub(room), line).min(all.saturating_sub(room));
    }

    /// The window has another size.
    pub fn resize(&mut self, size: (usize, usize)) {
        self.size = size;
        self.select(self.place().line);
    }

    /// The selected thing.
    pub fn selected(&self) -> Option<&Thing> {
        self.place().at.as_ref()
    }

    /// What an order is about: what is shown whole, else all that is marked, else what is selected.
    pub fn chosen(&self) -> Vec<Thing> {
        let place = self.place();
        if self.pane.whole {
            // The selected line may be another by now.
            self.pane.of.clone().or_else(|| self.subject()).into_iter().collect()
        } else if place.marks.is_empty() {
            place.at.iter().cloned().collect()
        } else {
            place.marks.iter().cloned().collect()
        }
    }

    /// The slot of this name.
    pub fn slot(&self, name: &str) -> Option<&SlotStatus> {
        let pools = self.data.status.iter().flat_map(|status| &status.pools);
        pools
            .flat_map(|pool| pool.template.iter().chain(&pool.slots))
            .find(|slot| slot.slot.to_string() == name)
    }

    /// What the pane needs next, if it does not show the selected thing.
    pub fn wanted_page(&self) -> Option<Request> {
        let thing = self.subject()?;
        match self.pane.kind {
            Kind::Output => None,
            Kind::Page | Kind::Why => Some(Request::Page(thing, self.pane.kind)),
        }
    }

    /// What the pane is about: a process belongs to its slot, an event to its job.
    pub fn subject(&self) -> Option<Thing> {
        self.subject_of(self.selected()?)
    }

    /// The same for any thing.
    pub fn subject_of(&self, thing: &Thing) -> Option<Thing> {
        if let Thing::Process(slot, _) = thing {
            return Some(Thing::Slot(slot.clone()));
        }
        let Thing::Event(number) = thing else { return Some(thing.clone()) };
        let (_, event) = self.data.events.iter().find(|(each, _)| each == number)?;
        let job = event.job.clone().map(Thing::Job);
        let slot = || event.worker.as_ref().map(|worker| Thing::Slot(worker.slot.to_string()));
        let queue = || event.queue.as_ref().map(|queue| Thing::Queue(queue.to_string()));
        job.or_else(slot).or_else(queue).or_else(|| event.pool.clone().map(Thing::Pool))
    }

    /// Takes in news.
    pub fn hear(&mut self, news: News) {
        match news {
            News::Seen(seen) => self.see(*seen),
            News::Unseen(why) => self.trouble = Some(why),
            News::Page { of: thing, kind, text } => {
                // It may come late: another thing may be selected by now.
                if self.pane.kind == kind && self.subject().as_ref() == Some(&thing) {
                    self.pane.show(thing, &text);
                }
            }
            News::Output(job, text) => {
                if self.pane.kind == Kind::Output && self.pane.of == Some(Thing::Job(job)) {
                    self.pane.append(&text);
                }
            }
            News::Done(done) => {
                self.doing = self.doing.saturating_sub(1);
                let is_bad = done.is_err();
                self.said = Some(Said { text: done.unwrap_or_else(|why| why), is_bad });
            }
            News::Happened(events) => self.happened(events),
        }
    }

    fn see(&mut self, seen: Seen) {
        let Seen { at, place, status, pressure, waits, tab, list } = seen;
        self.trouble = None;
        if let Some(status) = &status {
            self.rates.settled(at, status);
            self.cpu.seen(at, status);
            self.data.queues.clone_from(&status.queues);
        }
        if let Some(waits) = waits {
            self.rates.waited(at, &waits);
        }
        let data = &mut self.data;
        (data.at, data.place, data.pressure) = (Some(at), place, pressure);
        let has_status = status.is_some();
        data.status = status;
        data.refused.remove(&tab);
        match list {
            Ok(List::None) => {}
            Ok(List::Queues(queues)) => data.queues = queues,
            Ok(List::Jobs(jobs)) => data.jobs = jobs,
            Ok(List::Failures(groups)) => data.failures = groups,
            Ok(List::Recurring(records)) => data.recurring = records,
            Ok(List::Fleet(fleet)) => data.fleet = Some(fleet),
            Err(why) => drop(data.refused.insert(tab, why)),
        }
        // Else the counts are those of an earlier look.
        if has_status || tab == Tab::Queues {
            self.rates.counted(at, &self.data.queues);
        }
        self.rebuild();
    }

    /// Remembers what happened, and says what somebody has ordered.
    fn happened(&mut self, events: Vec<PublishedEvent>) {
        for event in events {
            // What this screen orders it tells by itself.
            if lists::is_order(&event) && self.doing == 0 {
                let at = lists::clock_time(event.at, &self.look);
                let text = format!("{at} {} {}", event.what, lists::said(&event));
                self.said = Some(Said { text, is_bad: false });
            }
            if self.data.events.len() == EVENTS {
                self.data.events.pop_front();
            }
            self.data.events.push_back((self.numbered, event));
            self.numbered += 1;
        }
        if self.tab == Tab::Events {
            self.rebuild();
        }
    }
}
