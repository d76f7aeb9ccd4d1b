//! The points of one line in time, packed: a point in which nothing has happened takes no byte.

use std::collections::VecDeque;
use std::time::Duration;

use super::spread::{Size, Spread};
use model::Millis;

/// What happened in one step, and how it was at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) put: u32,
    pub(super) begun: u32,
    pub(super) complete: u32,
    pub(super) failed: u32,
    /// Half of the waits were no longer than the first, 95 % no longer than the second.
    pub(super) wait: [Size; 2],
    /// The same of the runs.
    pub(super) run: [Size; 2],
    /// Jobs that waited when they were counted last; None = they never were.
    pub(super) waiting: Option<u32>,
    /// Most jobs that ran at once.
    pub(super) most: u32,
    /// Jobs that ran at the end.
    pub(super) busy: u32,
}

/// The latest steps of one length.
#[derive(Debug)]
pub(super) struct Ring {
    /// Length of a step in milliseconds.
    step: i64,
    /// Number of steps that are kept.
    kept: i64,
    /// The packed points; each begins with the number of steps since the one before.
    bytes: VecDeque<u8>,
    /// The step before the first packed point, and the point that was there.
    before: (i64, Point),
    /// The step of the last packed point.
    last: i64,
    /// The point of each later step in which nothing happens: what waits and runs stays as it was.
    rests: Point,
    open: Open,
}

/// The step that is not over yet.
#[derive(Debug, Default)]
pub(super) struct Open {
    at: i64,
    pub(super) point: Point,
    pub(super) wait: Spread,
    pub(super) run: Spread,
}

impl Open {
    /// One job more runs.
    pub(super) fn begin(&mut self, waited: Option<Duration>) {
        self.point.begun += 1;
        self.point.busy += 1;
        self.point.most = self.point.most.max(self.point.busy);
        waited.into_iter().for_each(|waited| self.wait.add(waited));
    }

    /// One job less runs.
    pub(super) fn end(&mut self, ran: Duration) {
        self.point.busy = self.point.busy.saturating_sub(1);
        self.run.add(ran);
    }

    fn point(&self) -> Point {
        let both = |spread: &Spread| [50, 95].map(|percent| spread.quantile(percent));
        Point { wait: both(&self.wait), run: both(&self.run), ..self.point }
    }
}

impl Ring {
    /// A ring without points.
    pub(super) fn new(step: Duration, kept: i64) -> Ring {
        let step = i64::try_from(step.as_millis()).unwrap_or(i64::MAX);
        let (bytes, rests, open) = (VecDeque::new(), Point::default(), Open::default());
        Ring { step, kept, bytes, before: (0, rests), last: 0, rests, open }
    }

    /// The step that goes on at that time. If the clock was set back by a moment, that is the one that is open.
    pub(super) fn open(&mut self, now: Millis) -> &mut Open {
        let at = now.0.div_euclid(self.step);
        if at > self.open.at {
            self.close();
            self.open.at = at;
            self.forget_before(at - self.kept + 1);
        } else if at + 1 < self.open.at {
            self.set_back(at);
        }
        &mut self.open
    }

    /// Forgets the steps from this one on. What is counted in the open one goes on here.
    fn set_back(&mut self, at: i64) {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let (mut rest_of, mut kept) = (bytes.as_slice(), 0);
        (self.last, self.rests) = self.before;
        while let Some((gap, point)) = unpack(&mut std::iter::from_fn(|| rest_of.split_off_first().copied()))
            && self.last + gap < at
        {
            kept = bytes.len() - rest_of.len();
            (self.last, self.rests) = (self.last + gap, rest(point));
        }
        self.bytes.truncate(kept);
        self.before.0 = self.before.0.min(at - 1);
        self.open.at = at;
    }

    /// Number of packed bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the oldest eighth.
    pub(super) fn shorten(&mut self) {
        let most = self.bytes.len() / 8 * 7;
        while self.bytes.len() > most && self.pop() {}
    }

    /// Whether nothing runs, and nothing has happened in any step that would be kept now.
    pub(super) fn is_stale(&self, now: Millis) -> bool {
        let oldest = now.0.div_euclid(self.step) - self.kept;
        self.open.point.busy == 0 && self.open.at < oldest
    }

    /// A copy of what is needed to read the points, to be made where nobody must wait.
    pub(super) fn copy(&self) -> Copy {
        let (before, open) = (self.before, (self.open.at, self.open.point()));
        Copy { step: self.step, kept: self.kept, bytes: self.bytes.iter().copied().collect(), before, open }
    }

    fn close(&mut self) {
        let point = self.open.point();
        if point != self.rests {
            if self.bytes.is_empty() {
                (self.before, self.last) = ((self.open.at - 1, self.rests), self.open.at - 1);
            }
            let packed = pack(&point, self.open.at - self.last);
            // Growth by doubling would leave up to as much unused.
            if self.bytes.capacity() < self.bytes.len() + packed.len() {
                self.bytes.reserve_exact(1 << 10);
            }
            self.bytes.extend(packed);
            (self.last, self.rests) = (self.open.at, rest(point));
        }
        self.open.wait.clear();
        self.open.run.clear();
        self.open.point = self.rests;
    }

    fn forget_before(&mut self, oldest: i64) {
        let is_old = |ring: &Ring| {
            let gap = varint(&mut ring.bytes.iter().copied()).unwrap_or_default();
            ring.before.0 + gap < oldest
        };
        while !self.bytes.is_empty() && is_old(self) && self.pop() {}
    }

    /// Takes the oldest point out; false if there is none.
    fn pop(&mut self) -> bool {
        let mut taken = 0;
        let mut bytes = self.bytes.iter().copied().inspect(|_| taken += 1);
        let Some((gap, point)) = unpack(&mut bytes) else { return false };
        self.bytes.drain(..taken);
        self.before = (self.before.0 + gap, rest(point));
        true
    }
}

/// The points of a ring as they were at one moment.
pub(super) struct Copy {
    step: i64,
    kept: i64,
    bytes: Vec<u8>,
    before: (i64, Point),
    open: (i64, Point),
}

impl Copy {
    /// The points of all steps from `since` on, and when the first of them began: none of a step that is not kept.
    pub(super) fn points(&self, since: Millis, now: Millis) -> (Millis, Vec<Point>) {
        let (mut open, point_there) = self.open;
        let mut to = now.0.div_euclid(self.step);
        // The clock was set back, and nothing has happened since.
        if open > to + 1 {
            open = to;
        }
        to = to.max(open);
        let from = since.0.div_euclid(self.step).max(to - self.kept + 1).min(to);
        let (mut place, mut latest) = self.before;
        let before = place.min(open - 1);
        // What was before the oldest point that is kept is not known any more, or nothing had happened.
        let mut points: Vec<Point> = (from..=before).map(|_| Point::default()).collect();
        let mut at = before.max(from - 1);
        let mut bytes = self.bytes.iter().copied();
        let mut add = |next: i64, point: Point| {
            // Between two points nothing has happened.
            points.extend((at + 1..next).map(|_| rest(latest)));
            if next >= from {
                points.push(point);
            }
            (at, latest) = (next.max(from - 1), point);
        };
        while let Some((gap, point)) = unpack(&mut bytes)
            && place + gap < open
        {
            place += gap;
            add(place, point);
        }
        add(open, point_there);
        if to > open {
            add(to, rest(point_there));
        }
        (Millis(from * self.step), points)
    }
}

/// The point of a step in which nothing happens after this one.
fn rest(point: Point) -> Point {
    let Point { waiting, busy, .. } = point;
    Point { waiting, busy, most: busy, ..Point::default() }
}

fn pack(point: &Point, gap: i64) -> Vec<u8> {
    // 0 says that they were never counted.
    let waiting = point.waiting.map_or(0, |waiting| waiting.saturating_add(1));
    let Point { put, begun, complete, failed, most, busy, .. } = *point;
    let mut packed = Vec::with_capacity(32);
    let gap = u32::try_from(gap).unwrap_or(u32::MAX);
    for mut value in [gap, put, begun, complete, failed, most, busy, waiting] {
        // Seven bits a byte; the eighth says that more follow.
        while value >= 0x80 {
            packed.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        packed.push(value as u8);
    }
    packed.extend(point.wait);
    packed.extend(point.run);
    packed
}

fn varint(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut value = 0;
    // Five bytes of seven bits hold a u32.
    for shift in (0..35).step_by(7) {
        let byte = bytes.next()?;
        value |= i64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(value)
}

/// The next point, and the number of steps from the one before.
fn unpack(bytes: &mut impl Iterator<Item = u8>) -> Option<(i64, Point)> {
    let gap = varint(bytes)?;
    let mut number = || u32::try_from(varint(bytes)?).ok();
    let (put, begun, complete, failed) = (number()?, number()?, number()?, number()?);
    let (most, busy, waiting) = (number()?, number()?, number()?.checked_sub(1));
    let wait = [bytes.next()?, bytes.next()?];
    let run = [bytes.next()?, bytes.next()?];
    Some((gap, Point { put, begun, complete, failed, wait, run, waiting, most, busy }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: i64) -> Millis {
        Millis(1_790_000_000_000 + seconds * 1_000)
    }

    #[test]
    fn points_come_back_as_they_were_and_gauges_last() {
        let mut ring = Ring::new(10 * SECOND, 6);
        ring.open(at(0)).point.put = 300;
        ring.open(at(9)).begin(Some(2 * SECOND));
        ring.open(at(35)).point.waiting = Some(7);
        ring.open(at(35)).end(SECOND);
        let (from, points) = ring.copy().points(at(0), at(59));
        assert_eq!((from, points.len()), (at(0), 6));
        let busy: Vec<_> =
            points.iter().map(|point| (point.put, point.begun, point.busy, point.most)).collect();
        assert_eq!(
            busy,
            [(300, 1, 1, 1), (0, 0, 1, 1), (0, 0, 1, 1), (0, 0, 0, 1), (0, 0, 0, 0), (0, 0, 0, 0)]
        );
        let waiting: Vec<_> = points.iter().map(|point| point.waiting).collect();
        assert_eq!(waiting, [None, None, None, Some(7), Some(7), Some(7)]);
        assert!(points[0].wait[0] > 0 && points[3].run[1] > 0 && points[1].wait == [0, 0]);
        assert_eq!(ring.copy().points(at(20), at(39)).1, points[2..4]);
    }

    #[test]
    fn old_points_are_forgotten_and_quiet_ones_take_no_byte() {
        let mut ring = Ring::new(10 * SECOND, 6);
        for n in 0..100 {
            ring.open(at(n * 10)).point.put = 1;
        }
        let (from, points) = ring.copy().points(at(0), at(999));
        assert_eq!((from, points.iter().map(|point| point.put).sum::<u32>()), (at(940), 6));
        assert_eq!(ring.bytes(), 5 * 12);
        ring.open(at(100_000));
        assert_eq!(ring.bytes(), 0, "all were too old");
        for n in 0..100 {
            ring.open(at(200_000 + n * 10));
        }
        assert_eq!((ring.bytes(), ring.is_stale(at(200_000)), ring.is_stale(at(300_000))), (0, false, true));
    }

    #[test]
    fn clock_that_was_set_back_loses_nothing() {
        let mut ring = Ring::new(10 * SECOND, 6);
        ring.open(at(50)).point.put = 1;
        ring.open(at(0)).point.put += 1;
        assert_eq!(ring.copy().points(at(0), at(0)).1.iter().map(|point| point.put).sum::<u32>(), 2);
    }

    #[test]
    fn clock_that_jumped_ahead_and_back_leaves_its_steps_apart() {
        let mut ring = Ring::new(10 * SECOND, 6);
        let put = |ring: &Ring, now| -> Vec<u32> {
            let (from, points) = ring.copy().points(at(0), at(now));
            assert_eq!((from, points.len()), (at(0), now as usize / 10 + 1));
            points.iter().map(|point| point.put).collect()
        };
        (0..3).for_each(|n| ring.open(at(n * 10)).point.put = 1);
        ring.open(at(40)).point.put = 5;
        ring.open(at(50)).point.put = 7;
        assert_eq!(put(&ring, 20), [1, 1, 7], "before anything happens");
        ring.open(at(20)).point.put += 1;
        assert_eq!(put(&ring, 20), [1, 1, 8]);
        ring.open(at(30)).point.put = 2;
        ring.open(at(40)).point.put = 3;
        assert_eq!(put(&ring, 49), [1, 1, 8, 2, 3]);
        // Farther back than all that is known.
        ring.open(at(900)).point.put = 1;
        ring.open(at(910)).point.put = 1;
        ring.open(at(0)).point.put = 9;
        ring.open(at(10)).point.put = 4;
        assert_eq!(put(&ring, 10), [9, 4]);
    }

    #[test]
    fn shortened_ring_has_the_latest_points() {
        let mut ring = Ring::new(10 * SECOND, 100);
        (0..100).for_each(|n| ring.open(at(n * 10)).begin(None));
        let before = ring.bytes();
        ring.shorten();
        assert!(ring.bytes() < before && ring.bytes() > before / 2);
        let (_, points) = ring.copy().points(at(0), at(999));
        assert_eq!((points.len(), points[99].busy), (100, 100));
        assert!(points[0].begun == 0 && points[50].begun == 1);
    }
}
