//! The tabs of queues, jobs, failures, recurring jobs, supervisors and events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::rates::{Clear, Rates};
use super::table::{Column, Row, Table};
use crate::screen::grid::Style;
use crate::thing::Thing;
use model::verb::FailureGroup;
use model::{
    Fleet, JobRecord, JobState, Member, Millis, PublishedEvent, QueueCounts, QueueName, RecurringRecord, What,
};
use term::format::{between, known, schedule};
use term::row::{ran, short, shortened, why};
use term::screen::{Look, age, headline};

const QUEUES: [Column; 11] = [
    Column::words("QUEUE", 8),
    Column::figures("WAITING", 7),
    Column::words("LAST 60s", 8),
    Column::figures("OLDEST", 6),
    Column::figures("CLEAR IN", 6),
    Column::figures("RUNNING", 7),
    Column::figures("DELAYED", 4),
    Column::figures("COMPLETE", 4),
    Column::figures("FAILED", 6),
    Column::figures("HELD", 4),
    Column::states("STATE", 6),
];

/// The table of queues.
pub fn queues(
    queues: &BTreeMap<QueueName, QueueCounts>,
    rates: &Rates,
    now: Millis,
    look: &Look,
    sort: &str,
    words: &[String],
) -> Table {
    let mut all: Vec<(&QueueName, &QueueCounts)> = queues.iter().collect();
    match sort {
        "waiting" => all.sort_by_key(|(_, counts)| Reverse(count(counts, &[JobState::Waiting]))),
        // Queues in which nothing waits come last.
        "oldest" => all.sort_by_key(|(_, counts)| counts.oldest_waiting.map_or(i64::MAX, |at| at.0)),
        _ => {}
    }
    let rows = all.into_iter().map(|(name, counts)| queue(name, counts, rates, now, look));
    Table::new(&QUEUES, rows.collect(), words)
}

fn count(counts: &QueueCounts, states: &[JobState]) -> u64 {
    states.iter().filter_map(|state| counts.jobs.get(state)).sum()
}

fn queue(name: &QueueName, counts: &QueueCounts, rates: &Rates, now: Millis, look: &Look) -> Row {
    let number = |states: &[JobState]| count(counts, states).to_string();
    let (state, tint) = match &counts.paused {
        None if counts.unserved => ("no pool".into(), Style::YELLOW),
        None => ("open".into(), Style::GREEN),
        Some(pause) => (format!("paused by {}{}", pause.by, pause.because()), Style::YELLOW),
    };
    let clear = match rates.clear(name) {
        Clear::Empty | Clear::Unknown => "-".into(),
        Clear::Grows => "grows".into(),
        Clear::In(time) => age(time),
    };
    let cells = [
        name.to_string(),
        number(&[JobState::Waiting]),
        rates.queue(name).map(|ring| ring.bars(8, look.ascii)).unwrap_or_default(),
        counts.oldest_waiting.map_or("-".into(), |put| age(between(put, now))),
        clear,
        number(&[JobState::Running, JobState::Canceling]),
        number(&[JobState::Delayed, JobState::Depends]),
        number(&[JobState::Complete]),
        number(&[JobState::Failed]),
        number(&[JobState::Held]),
        state,
    ];
    Row { thing: Thing::Queue(name.to_string()), cells: cells.to_vec(), tint }
}

const JOBS: [Column; 8] = [
    Column::words("ID", 12),
    Column::states("STATE", 8),
    Column::words("QUEUE", 6),
    Column::words("WHAT", 12),
    Column::figures("TRY", 3),
    Column::figures("AGE", 4),
    Column::figures("RAN", 4),
    Column::words("WHY", 6),
];

/// The table of jobs.
pub fn jobs(jobs: &[JobRecord], now: Millis, sort: &str, words: &[String]) -> Table {
    let mut all: Vec<&JobRecord> = jobs.iter().collect();
    match sort {
        "state" => all.sort_by_key(|job| job.state),
        "queue" => all.sort_by(|a, b| a.queue.cmp(&b.queue)),
        "ran" => all.sort_by_key(|job| Reverse(ran(job, now))),
        _ => {}
    }
    let length = short(all.iter().map(|job| job.id.as_str()));
    let row = |job: &JobRecord| {
        let cells = [
            shortened(job.id.as_str(), length).to_owned(),
            job.state.to_string(),
            job.queue.to_string(),
            job.title.clone().unwrap_or_else(|| job.class.to_string()),
            job.attempt.to_string(),
            known(job.put_at).map_or_else(|| "-".into(), |at| age(between(at, now))),
            ran(job, now).map_or_else(|| "-".into(), age),
            why(job).unwrap_or_default(),
        ];
        Row { thing: Thing::Job(job.id.clone()), cells: cells.to_vec(), tint: tint(job.state) }
    };
    Table::new(&JOBS, all.into_iter().map(row).collect(), words)
}

fn tint(state: JobState) -> Style {
    match state {
        JobState::Failed | JobState::Held => Style::RED,
        JobState::Running | JobState::Complete => Style::GREEN,
        JobState::Canceling | JobState::Canceled => Style::YELLOW,
        JobState::Waiting | JobState::Delayed | JobState::Depends => Style::PLAIN,
    }
}

const FAILURES: [Column; 5] = [
    Column::states("GROUP", 8),
    Column::figures("FAILED", 6),
    Column::figures("HELD", 4),
    Column::figures("NEWEST", 6),
    Column::words("MESSAGE OF THE NEWEST", 12),
];

/// The table of failures.
pub fn failures(groups: &[FailureGroup], now: Millis, sort: &str, words: &[String]) -> Table {
    let mut all: Vec<&FailureGroup> = groups.iter().collect();
    match sort {
        "newest" => all.sort_by_key(|group| Reverse(group.newest.0)),
        "name" => all.sort_by(|a, b| a.group.cmp(&b.group)),
        _ => {}
    }
    let row = |group: &FailureGroup| {
        let cells = [
            group.group.clone(),
            group.failed.to_string(),
            group.held.to_string(),
            known(group.newest).map_or_else(|| "-".into(), |at| age(between(at, now))),
            headline(&group.message).to_owned(),
        ];
        Row { thing: Thing::Group(group.group.clone()), cells: cells.to_vec(), tint: Style::RED }
    };
    Table::new(&FAILURES, all.into_iter().map(row).collect(), words)
}

const RECURRING: [Column; 7] = [
    Column::words("NAME", 8),
    Column::words("QUEUE", 6),
    Column::words("CLASS", 6),
    Column::states("NEXT", 8),
    Column::figures("JOBS", 4),
    Column::words("LATEST", 8),
    Column::words("SCHEDULE", 8),
];

/// The table of recurring jobs.
pub fn recurring(records: &[RecurringRecord], now: Millis, sort: &str, words: &[String]) -> Table {
    let mut all: Vec<&RecurringRecord> = records.iter().collect();
    if sort == "next" {
        // Those that are never due come last.
        all.sort_by_key(|record| record.next_at.map_or(i64::MAX, |at| at.0));
    }
    let row = |record: &RecurringRecord| {
        let (job, name) = (&record.recurring.job, &record.recurring.name);
        let (next, tint) = match (&record.paused, &record.stuck, record.next_at) {
            (Some(pause), ..) => (format!("paused by {}", pause.by), Style::YELLOW),
            (None, Some(_), _) => ("cannot be put".into(), Style::RED),
            (None, None, Some(at)) if at <= now => ("now".into(), Style::PLAIN),
            (None, None, Some(at)) => (format!("in {}", age(between(now, at))), Style::PLAIN),
            (None, None, None) => ("never".into(), Style::DIM),
        };
        let cells = [
            name.clone(),
            job.queue.to_string(),
            job.class.to_string(),
            next,
            record.count.to_string(),
            record.latest.as_ref().map_or_else(|| "-".into(), |latest| latest.state.to_string()),
            schedule(&record.recurring.schedule),
        ];
        Row { thing: Thing::Recurring(name.clone()), cells: cells.to_vec(), tint }
    };
    Table::new(&RECURRING, all.into_iter().map(row).collect(), words)
}

const FLEET: [Column; 7] = [
    Column::words("HOST", 8),
    Column::states("STATE", 8),
    Column::figures("SEEN", 5),
    Column::figures("RUNNING", 7),
    Column::words("VERSION", 6),
    Column::words("INSTANCE", 6),
    Column::words("POOLS", 8),
];

/// The table of supervisors.
pub fn fleet(fleet: &Fleet, sort: &str, words: &[String]) -> Table {
    let mut all: Vec<&Member> = fleet.supervisors.iter().collect();
    if sort == "running" {
        all.sort_by_key(|member| Reverse(member.running));
    }
    let ago = |at: Option<Millis>| at.map_or_else(|| "-".into(), |at| age(between(at, fleet.now)));
    let row = |member: &Member| {
        let (state, tint) = match (member.silent, &member.stopping) {
            (true, _) => ("SILENT".into(), Style::RED),
            (false, Some(_)) => ("stopping".into(), Style::YELLOW),
            (false, None) => (format!("up {}", ago(member.since)), Style::GREEN),
        };
        let pool = |pool: &model::PoolSign| format!("{} {}/{}", pool.name, pool.busy, pool.slots);
        let cells = [
            member.host.clone(),
            state,
            ago(member.seen),
            member.running.to_string(),
            member.version.clone(),
            member.instance.clone(),
            member.pools.iter().map(pool).collect::<Vec<_>>().join(", "),
        ];
        Row { thing: Thing::Member(member.instance.clone()), cells: cells.to_vec(), tint }
    };
    Table::new(&FLEET, all.into_iter().map(row).collect(), words)
}

const EVENTS: [Column; 3] = [Column::words("TIME", 8), Column::states("EVENT", 9), Column::words("WHAT", 12)];

/// The table of events, the newest first.
pub fn events(events: &VecDeque<(u64, PublishedEvent)>, look: &Look, words: &[String]) -> Table {
    let row = |(number, event): &(u64, PublishedEvent)| {
        const BAD: [What; 6] =
            [What::Failed, What::Held, What::Killed, What::LockLost, What::Lost, What::Ended];
        let tint = match (BAD.contains(&event.what), is_order(event)) {
            (true, _) => Style::RED,
            (false, true) => Style::CYAN,
            (false, false) => Style::PLAIN,
        };
        let cells = [clock_time(event.at, look), event.what.to_string(), said(event)];
        Row { thing: Thing::Event(*number), cells: cells.to_vec(), tint }
    };
    Table::new(&EVENTS, events.iter().rev().map(row).collect(), words)
}

/// The time of day.
pub fn clock_time(at: Millis, look: &Look) -> String {
    // Without the date and the zone: `2026-12-24 18:00:00+01:00`.
    look.moment(at).get(11..19).unwrap_or_default().to_owned()
}

/// An event without its time and kind.
pub fn said(event: &PublishedEvent) -> String {
    term::event::words(event).trim_start().to_owned()
}

/// Whether somebody ordered it.
pub fn is_order(event: &PublishedEvent) -> bool {
    const OF_JOBS: [What; 5] = [What::Canceling, What::Canceled, What::Retried, What::Edited, What::Removed];
    const OF_THE_WHOLE: [What; 7] = [
        What::Paused,
        What::Resumed,
        What::Scaled,
        What::Recycled,
        What::Reloaded,
        What::Option,
        What::Stopping,
    ];
    OF_THE_WHOLE.contains(&event.what) || (event.by.is_some() && OF_JOBS.contains(&event.what))
}
