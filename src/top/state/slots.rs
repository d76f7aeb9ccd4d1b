//! The tab of slots: pools with their slots, jobs and processes, or the slots alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::table::{Column, Row, Table, has_words};
use crate::screen::grid::Style;
use crate::thing::Thing;
use model::{Millis, PoolStatus, Process, RunningJob, SlotState, SlotStatus, Status};
use term::format::between;
use term::processes::{add, times, with_children};
use term::row::{short, shortened};
use term::screen::{Look, age, percent, size};

const COLUMNS: [Column; 9] = [
    Column::words("SLOT", 12),
    Column::states("STATE", 6),
    Column::figures("AGE", 4),
    Column::figures("PID", 5),
    Column::figures("CPU%", 4),
    Column::figures("TIME", 5),
    Column::figures("MEM", 5),
    Column::words("JOB", 6),
    Column::words("WHAT", 8),
];

/// Limit of the jobs shown below a slot that runs many.
const JOBS: usize = 10;
/// How deep processes are shown.
const DEEPEST: usize = 6;

/// What the slots use of a CPU, by two looks.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    at: Option<Millis>,
    before: BTreeMap<(String, u32), Duration>,
    share: BTreeMap<(String, u32), f64>,
}

impl Cpu {
    /// Takes in the next look.
    pub fn seen(&mut self, at: Millis, status: &Status) {
        let slots = status.pools.iter().flat_map(|pool| &pool.slots);
        let used = |slot: &SlotStatus| Some((key(slot), with_children(slot.process.as_ref()?).cpu));
        let now: BTreeMap<(String, u32), Duration> = slots.filter_map(used).collect();
        let seconds = self.at.map_or(0.0, |then| between(then, at).as_secs_f64());
        let share = |(key, cpu): (&(String, u32), &Duration)| {
            let more = cpu.saturating_sub(*self.before.get(key)?).as_secs_f64();
            (seconds > 0.0).then(|| (key.clone(), more / seconds))
        };
        self.share = now.iter().filter_map(share).collect();
        (self.at, self.before) = (Some(at), now);
    }

    fn of(&self, slot: &SlotStatus) -> Option<f64> {
        self.share.get(&key(slot)).copied()
    }
}

fn key(slot: &SlotStatus) -> (String, u32) {
    // With the generation: the next life counts from 0.
    (slot.slot.to_string(), slot.generation)
}

/// How to show them.
pub struct How<'a> {
    /// The look of the screen.
    pub look: &'a Look,
    /// Whether as a tree.
    pub tree: bool,
    /// By what they are sorted.
    pub sort: &'a str,
    /// Words that each has.
    pub words: &'a [String],
}

/// The table of slots.
pub fn table(status: &Status, cpu: &Cpu, how: &How<'_>) -> Table {
    let mut slots: Vec<(&PoolStatus, &SlotStatus)> = Vec::new();
    for pool in &status.pools {
        let from = slots.len();
        slots.extend(pool.template.iter().chain(&pool.slots).map(|slot| (pool, slot)));
        // In a tree slots are sorted below their pools.
        if how.tree {
            sort(&mut slots[from..], cpu, how.sort);
        }
    }
    if !how.tree {
        sort(&mut slots, cpu, how.sort);
    }
    let ids = slots.iter().flat_map(|(_, slot)| &slot.jobs).map(|job| job.id.as_str());
    let length = short(ids);
    let (mut rows, mut of_pool) = (Vec::new(), None);
    let mut all = 0;
    for (pool, slot) in slots {
        all += 1;
        let below = slot_rows(pool, slot, cpu, (how, length));
        if !has_words(&below, how.words) {
            continue;
        }
        if how.tree && of_pool != Some(&pool.name) {
            rows.push(pool_row(pool));
            of_pool = Some(&pool.name);
        }
        rows.extend(below);
    }
    // A pool may have no slots, and is to be found all the same.
    if how.tree && how.words.is_empty() {
        rows.extend(
            status.pools.iter().filter(|pool| pool.slots.is_empty() && pool.template.is_none()).map(pool_row),
        );
    }
    Table::of(&COLUMNS, rows, all)
}

fn sort(slots: &mut [(&PoolStatus, &SlotStatus)], cpu: &Cpu, by: &str) {
    let memory = |slot: &SlotStatus| slot.process.as_ref().map_or(0, |process| with_children(process).rss);
    let class = |slot: &SlotStatus| slot.jobs.first().map(|job| job.class.to_string());
    let ran = |slot: &SlotStatus| slot.jobs.first().map_or(Duration::ZERO, |job| job.ran);
    match by {
        "cpu" => {
            slots.sort_by(|(_, a), (_, b)| cpu.of(b).unwrap_or(0.0).total_cmp(&cpu.of(a).unwrap_or(0.0)))
        }
        "memory" => slots.sort_by_key(|(_, slot)| std::cmp::Reverse(memory(slot))),
        "age" => slots.sort_by_key(|(_, slot)| std::cmp::Reverse((ran(slot), slot.age))),
        // Those without a job come last.
        "class" => slots.sort_by_key(|(_, slot)| (slot.jobs.is_empty(), class(slot))),
        _ => {}
    }
}

fn pool_row(pool: &PoolStatus) -> Row {
    let busy = pool.slots.iter().filter(|slot| !slot.jobs.is_empty()).count();
    let queues: Vec<&str> = pool.queues.iter().map(|queue| queue.as_str()).collect();
    let mut what = format!("{} queues {}", pool.mode, queues.join(","));
    if let Some(pause) = &pool.pause {
        what = format!("paused by {}{}; {what}", pause.by, pause.because());
    } else if pool.paused {
        what = format!("paused; {what}");
    }
    if let Some(why) = &pool.probing {
        what = format!("probing: {why}; {what}");
    }
    let sum = pool.slots.iter().filter_map(|slot| slot.process.as_ref()).fold(Process::default(), add);
    let tint = if pool.paused || pool.probing.is_some() { Style::YELLOW } else { Style::BOLD };
    let state = if pool.paused { "paused".into() } else { format!("{busy}/{}", pool.slots.len()) };
    let cells = [
        pool.name.clone(),
        state,
        String::new(),
        String::new(),
        String::new(),
        age(sum.cpu),
        size(sum.rss),
        String::new(),
        what,
    ];
    Row { thing: Thing::Pool(pool.name.clone()), cells: cells.to_vec(), tint }
}

fn slot_rows(pool: &PoolStatus, slot: &SlotStatus, cpu: &Cpu, (how, length): (&How<'_>, usize)) -> Vec<Row> {
    let is_template = pool.template.as_ref().is_some_and(|template| std::ptr::eq(template, slot));
    let name = slot.slot.to_string();
    let indent = if how.tree { "  " } else { "" };
    let used = slot.process.as_ref().map(with_children);
    let pid = slot.process.as_ref().map(|process| process.pid.to_string());
    let state = match slot.process.as_ref().map(|process| process.state.as_str()) {
        Some("T") => "stopped",
        _ if is_template => "template",
        _ => slot.state.as_str(),
    };
    let job = slot.jobs.first();
    let cells = [
        format!("{indent}{name}#{}", slot.generation),
        state.into(),
        age(job.map_or(slot.age, |job| job.ran)),
        pid.unwrap_or_else(|| "-".into()),
        cpu.of(slot).map_or_else(|| "-".into(), |share| format!("{:.0}", share * 100.0)),
        used.as_ref().map_or_else(|| "-".into(), |used| age(used.cpu)),
        used.as_ref().map_or_else(|| "-".into(), |used| size(used.rss)),
        jobs_cell(slot, length),
        job.map_or_else(|| idle(slot), what),
    ];
    let mut rows = vec![Row { thing: Thing::Slot(name.clone()), cells: cells.to_vec(), tint: tint(slot) }];
    if how.tree {
        if slot.jobs.len() > 1 {
            rows.extend(slot.jobs.iter().take(JOBS).map(|job| job_row(job, length)));
        }
        if let Some(process) = &slot.process {
            processes(&mut rows, &name, process, 2, how.look);
        }
    }
    rows
}

fn jobs_cell(slot: &SlotStatus, length: usize) -> String {
    match slot.jobs.as_slice() {
        [] => String::new(),
        [only] => id(only, length),
        [first, ..] => format!("{} jobs, {}", slot.jobs.len(), id(first, length)),
    }
}

fn id(job: &RunningJob, length: usize) -> String {
    shortened(&job.id.shown(), length).to_owned()
}

/// What a job is, and how far.
fn what(job: &RunningJob) -> String {
    let class = job.class.shown();
    let mut text = if job.title.is_empty() { class.into_owned() } else { job.title.clone() };
    if let Some(fraction) = job.progress.as_ref().and_then(|progress| progress.fraction) {
        text = format!("{} {text}", percent(fraction));
    }
    if job.flood.is_some() {
        text = format!("floods its output; {text}");
    }
    if let Some(stopped) = job.stopped {
        text = format!("stopped for {}; {text}", age(stopped));
    }
    if let Some(why) = &job.ending {
        text = format!("ending: {why}; {text}");
    }
    text
}

/// What there is to say of a slot without a job.
fn idle(slot: &SlotStatus) -> String {
    let why = slot.leaving.clone().or_else(|| slot.why.clone().filter(|_| slot.state != SlotState::Ready));
    let next =
        slot.until.filter(|_| slot.state == SlotState::Down).map(|until| format!("next in {}", age(until)));
    [next, why].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn job_row(job: &RunningJob, length: usize) -> Row {
    let mut cells = vec![String::new(); COLUMNS.len()];
    cells[0] = "    job".into();
    cells[2] = age(job.ran);
    cells[7] = id(job, length);
    cells[8] = what(job);
    Row { thing: Thing::Job(job.id.clone()), cells, tint: Style::PLAIN }
}

/// The processes below the first, equal ones in one line.
fn processes(rows: &mut Vec<Row>, slot: &str, of: &Process, depth: usize, look: &Look) {
    for group in of.groups(look.all) {
        let sum = group.iter().copied().fold(Process::default(), add);
        let first = group[0];
        let many = if group.len() > 1 { format!(" {}", times(group.len(), look)) } else { String::new() };
        let mut cells = vec![String::new(); COLUMNS.len()];
        cells[0] = format!("{}{}{many}", "  ".repeat(depth), first.name);
        cells[1].clone_from(&first.state);
        cells[3] = if group.len() > 1 { String::new() } else { first.pid.to_string() };
        (cells[5], cells[6]) = (age(sum.cpu), size(sum.rss));
        rows.push(Row { thing: Thing::Process(slot.into(), rows.len()), cells, tint: Style::PLAIN });
        if group.len() == 1 && depth < DEEPEST {
            processes(rows, slot, first, depth + 1, look);
        }
    }
}

fn tint(slot: &SlotStatus) -> Style {
    match slot.state {
        SlotState::Ready | SlotState::Busy => Style::GREEN,
        SlotState::Starting | SlotState::Stopping => Style::YELLOW,
        SlotState::Down if slot.until.is_none() => Style::YELLOW,
        SlotState::Down | SlotState::Killed | SlotState::Unkillable => Style::RED,
    }
}
