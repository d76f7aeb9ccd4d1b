//! What happened to jobs, by queue and by class, over the last hour and the last day: bounded, in memory, and touched only
//! when something happens.

mod ring;
mod spread;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::{
    JobState, Millis, OneSeries, QueueCounts, QueueName, SeriesBy, SeriesQuery, SeriesStep, TimeSeries,
};

use ring::{Copy, Open, Point, Ring};

/// Number of queues, and of classes, that have lines of their own; what happens in others is in one line together.
const LINES: usize = 100;
/// The longest name that has a line of its own, in bytes.
const NAME: usize = 200;
/// Limit of the packed bytes of all lines. With their open steps and their unused bytes they take 4 MiB.
const BYTES: usize = 5 << 19;
/// The name of the others. No queue and no class that is counted apart can have it.
const OTHERS: &str = "others";

/// The series of one supervisor.
#[derive(Debug)]
pub(super) struct Series {
    all: Line,
    queues: Lines,
    classes: Lines,
    changes: u64,
}

#[derive(Debug, Default)]
struct Lines {
    named: BTreeMap<Arc<str>, Line>,
    others: Option<Box<Line>>,
    /// When lines were looked for last that others can replace.
    looked: Millis,
}

#[derive(Debug)]
struct Line {
    fine: Ring,
    coarse: Ring,
}

impl Default for Line {
    fn default() -> Line {
        let ring = |step: SeriesStep| Ring::new(step.length(), step.kept());
        Line { fine: ring(SeriesStep::TenSeconds), coarse: ring(SeriesStep::Minute) }
    }
}

/// How an attempt ended, as far as the series count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The job is complete.
    Complete,
    /// The attempt failed, whether or not there is another one.
    Failed,
    /// Neither: put back, canceled or lost.
    Otherwise,
}

impl Series {
    /// Series without points.
    pub(super) fn new() -> Series {
        Series { all: Line::default(), queues: Lines::default(), classes: Lines::default(), changes: 0 }
    }

    /// Counts a job that was put, in the line of its queue and in that of its class.
    pub(super) fn put(&mut self, now: Millis, queue: &str, class: &str) {
        self.all_of(now, queue, class, |open| open.point.put += 1);
    }

    /// A job began, which had waited for this long.
    pub(super) fn begun(&mut self, now: Millis, queue: &str, class: &str, waited: Option<Duration>) {
        self.all_of(now, queue, class, |open| open.begin(waited));
    }

    /// An attempt is over.
    pub(super) fn ended(&mut self, now: Millis, queue: &str, class: &str, ran: Duration, how: How) {
        self.all_of(now, queue, class, |open| {
            open.end(ran);
            match how {
                How::Complete => open.point.complete += 1,
                How::Failed => open.point.failed += 1,
                How::Otherwise => {}
            }
        });
    }

    /// Notes how many jobs wait in each queue.
    pub(super) fn waiting(&mut self, now: Millis, counts: &BTreeMap<QueueName, QueueCounts>) {
        let (mut sum, mut of_others) = (0, None);
        for (queue, counted) in counts {
            let waiting = counted.jobs.get(&JobState::Waiting).copied().unwrap_or_default();
            sum += waiting;
            // A queue from which nobody takes has no ends: waiting jobs alone give it a line.
            if waiting > 0 {
                self.queues.line(now, queue.as_str());
            }
            match self.queues.named.get_mut(queue.as_str()) {
                Some(line) => line.both(now, |open| open.point.waiting = Some(small(waiting))),
                None => *of_others.get_or_insert(0) += waiting,
            }
        }
        if let (Some(line), Some(waiting)) = (&mut self.queues.others, of_others) {
            line.both(now, |open| open.point.waiting = Some(small(waiting)));
        }
        self.all.both(now, |open| open.point.waiting = Some(small(sum)));
    }

    fn all_of(&mut self, now: Millis, queue: &str, class: &str, mut change: impl FnMut(&mut Open)) {
        self.all.both(now, &mut change);
        self.queues.line(now, queue).both(now, &mut change);
        self.classes.line(now, class).both(now, &mut change);
        self.changes = self.changes.wrapping_add(1);
        // A change adds no more than some points, so the sum need not be taken each time.
        if self.changes.is_multiple_of(256) {
            while self.bytes() > BYTES {
                self.shorten();
            }
        }
    }

    fn rings(&mut self) -> impl Iterator<Item = &mut Ring> {
        let Series { all, queues, classes, .. } = self;
        let lines = [queues, classes].into_iter().flat_map(|lines| {
            lines.named.values_mut().chain(lines.others.iter_mut().map(|others| &mut **others))
        });
        std::iter::once(all).chain(lines).flat_map(|line| [&mut line.fine, &mut line.coarse])
    }

    fn bytes(&mut self) -> usize {
        self.rings().map(|ring| ring.bytes()).sum()
    }

    /// Forgets the oldest points of the longest ring.
    fn shorten(&mut self) {
        // From the longest: a busy queue loses old points, and quiet ones keep theirs.
        self.rings().max_by_key(|ring| ring.bytes()).into_iter().for_each(Ring::shorten);
    }

    /// A copy of the lines that were asked for, to be read where the supervisor need not wait for it.
    pub(super) fn copy(&self, query: &SeriesQuery) -> Vec<Copied> {
        let queue = |name: &str, line: &Line| Copied::of(query, line, Some((SeriesBy::Queue, name)));
        let class = |name: &str, line: &Line| Copied::of(query, line, Some((SeriesBy::Class, name)));
        match (&query.queue, &query.class, query.each) {
            (Some(name), _, _) => {
                self.queues.get(name.as_str()).map(|line| queue(name.as_str(), line)).into_iter().collect()
            }
            (_, Some(name), _) => {
                self.classes.get(name.as_str()).map(|line| class(name.as_str(), line)).into_iter().collect()
            }
            (_, _, Some(SeriesBy::Queue)) => {
                self.queues.each().map(|(name, line)| queue(name, line)).collect()
            }
            (_, _, Some(SeriesBy::Class)) => {
                self.classes.each().map(|(name, line)| class(name, line)).collect()
            }
            (None, None, None) => vec![Copied::of(query, &self.all, None)],
        }
    }
}

impl Lines {
    fn line(&mut self, now: Millis, name: &str) -> &mut Line {
        let can_have = name.len() <= NAME && name != OTHERS;
        if !self.named.contains_key(name) && can_have && self.has_room(now) {
            self.named.insert(name.into(), Line::default());
        }
        match self.named.get_mut(name) {
            Some(line) => line,
            None => self.others.get_or_insert_default(),
        }
    }

    /// Whether one more can have a line. Once a minute at most, those lines are dropped in which nothing happens.
    fn has_room(&mut self, now: Millis) -> bool {
        if self.named.len() >= LINES && now.0.abs_diff(self.looked.0) >= 60_000 {
            self.looked = now;
            self.named.retain(|_, line| !line.coarse.is_stale(now));
        }
        self.named.len() < LINES
    }

    fn get(&self, name: &str) -> Option<&Line> {
        self.named.get(name).or(self.others.as_deref().filter(|_| name == OTHERS))
    }

    fn each(&self) -> impl Iterator<Item = (&str, &Line)> {
        let named = self.named.iter().map(|(name, line)| (&**name, line));
        named.chain(self.others.as_deref().map(|others| (OTHERS, others)))
    }
}

impl Line {
    fn both(&mut self, now: Millis, mut change: impl FnMut(&mut Open)) {
        change(self.fine.open(now));
        change(self.coarse.open(now));
    }
}

/// A line as it was at one moment.
pub(super) struct Copied {
    name: Option<(SeriesBy, String)>,
    copy: Copy,
}

impl Copied {
    fn of(query: &SeriesQuery, line: &Line, name: Option<(SeriesBy, &str)>) -> Copied {
        let ring = match query.step {
            SeriesStep::TenSeconds => &line.fine,
            SeriesStep::Minute => &line.coarse,
        };
        Copied { name: name.map(|(by, name)| (by, name.to_owned())), copy: ring.copy() }
    }
}

/// The answer of these lines.
pub(super) fn answer(query: &SeriesQuery, lines: &[Copied], now: Millis) -> TimeSeries {
    let since = query.since.unwrap_or(Millis(0));
    let mut from = now;
    let series = lines.iter().map(|line| {
        let (first, points) = line.copy.points(since, now);
        from = first;
        one(line.name.as_ref(), &points)
    });
    let series = series.collect();
    TimeSeries { step: query.step.length(), from, now, series }
}

fn one(name: Option<&(SeriesBy, String)>, points: &[Point]) -> OneSeries {
    let number = |field: fn(&Point) -> u32| points.iter().map(field).collect();
    let time = |field: fn(&Point) -> u8| points.iter().map(|point| spread::seconds(field(point))).collect();
    let named = |wanted: SeriesBy| name.filter(|(by, _)| *by == wanted).map(|(_, name)| name.as_str().into());
    OneSeries {
        queue: named(SeriesBy::Queue),
        class: named(SeriesBy::Class).map(|name: QueueName| name.as_str().into()),
        put: number(|point| point.put),
        begun: number(|point| point.begun),
        complete: number(|point| point.complete),
        failed: number(|point| point.failed),
        wait_p50: time(|point| point.wait[0]),
        wait_p95: time(|point| point.wait[1]),
        run_p50: time(|point| point.run[0]),
        run_p95: time(|point| point.run[1]),
        waiting: points.iter().map(|point| point.waiting).collect(),
        busy: number(|point| point.most),
    }
}

fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Millis {
        Millis(1_790_000_000_000 + seconds * 1_000)
    }

    fn read(series: &Series, query: &SeriesQuery, now: Millis) -> TimeSeries {
        answer(query, &series.copy(query), now)
    }

    #[test]
    fn jobs_are_counted_in_their_queue_their_class_and_the_whole() {
        let mut series = Series::new();
        let second = Duration::from_secs(1);
        series.put(at(0), "mail", "Send");
        series.begun(at(1), "mail", "Send", Some(second));
        series.begun(at(2), "web", "Send", None);
        series.ended(at(12), "mail", "Send", second, How::Complete);
        series.ended(at(13), "web", "Send", second, How::Failed);
        let counts = QueueCounts { jobs: [(JobState::Waiting, 5)].into(), ..QueueCounts::default() };
        series.waiting(at(14), &[("mail".into(), counts.clone()), ("other".into(), counts)].into());
        let all = read(&series, &SeriesQuery::default(), at(19));
        let since = SeriesQuery { since: Some(at(0)), ..SeriesQuery::default() };
        let whole = &read(&series, &since, at(19)).series[0];
        assert_eq!((all.series[0].begun.len(), all.step.as_secs()), (360, 10));
        assert_eq!((&*whole.put, &*whole.begun, &*whole.busy), (&[1, 0][..], &[2, 0][..], &[2, 2][..]));
        assert_eq!((&*whole.complete, &*whole.failed), (&[0, 1][..], &[0, 1][..]));
        assert_eq!(whole.waiting, [None, Some(10)]);
        let mail = SeriesQuery { queue: Some("mail".into()), ..since.clone() };
        let mail = &read(&series, &mail, at(19)).series[0];
        assert_eq!(
            (&*mail.begun, mail.waiting[1], mail.queue.as_ref().unwrap().as_str()),
            (&[1, 0][..], Some(5), "mail")
        );
        assert!(mail.wait_p50[0].is_some_and(|wait| (0.9..1.1).contains(&wait)) && mail.run_p95[0].is_none());
        let each = SeriesQuery { each: Some(SeriesBy::Class), step: SeriesStep::Minute, ..since };
        let each = read(&series, &each, at(19)).series;
        assert_eq!(
            (each.len(), &*each[0].begun, each[0].class.as_ref().unwrap().as_str()),
            (1, &[2][..], "Send")
        );
        let none = SeriesQuery { queue: Some("nobody".into()), ..SeriesQuery::default() };
        assert!(read(&series, &none, at(19)).series.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_the_hundred_and_first_queue_is_among_the_others() {
        let mut series = Series::new();
        let name = |n: usize| format!("queue-{n}");
        // A day of 150 queues, of which each does something in each step.
        for step in 0..400 {
            for n in 0..150 {
                let (now, ran) = (at(step * 10), Duration::from_millis(n as u64 + 1));
                series.begun(now, &name(n), &name(n), Some(ran));
                series.ended(now, &name(n), &name(n), ran, How::Complete);
            }
        }
        let capacity = |lines: &Lines| lines.named.len();
        assert_eq!((capacity(&series.queues), capacity(&series.classes)), (LINES, LINES));
        let asked = SeriesQuery { queue: Some(OTHERS.into()), ..SeriesQuery::default() };
        assert_eq!(read(&series, &asked, at(3_999)).series[0].complete[300], 50);
        assert!(series.bytes() <= BYTES, "{}", series.bytes());
        // After a day without them others get their places.
        series.put(at(3_999 + 90_000), "new", "new");
        assert!(series.queues.named.contains_key("new"));
    }

    #[test]
    fn places_are_looked_for_once_a_minute() {
        let mut series = Series::new();
        (0..LINES).for_each(|n| series.put(at(0), &format!("queue-{n}"), "Send"));
        // The oldest minute that is kept ends at 86,440 s.
        for (now, has_place) in [(86_430, false), (86_450, false), (86_489, false), (86_490, true)] {
            series.put(at(now), "new", "Send");
            assert_eq!(series.queues.named.contains_key("new"), has_place, "{now}");
        }
    }
}
