//! Orders about many jobs come stretch by stretch: the log has a line for each order, with its total.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::line::Line;
use super::request::Request;
use model::verb::{Bulk, Swept};

/// How often an order that takes long says how far it is.
const BETWEEN: Duration = Duration::from_secs(10);
/// How long its author may ask for nothing before it counts as broken off.
const SILENCE: u32 = 6;

/// Limit of the orders that go on at a time; each stretch of others has a line of its own.
const MOST: usize = 64;

/// The bulk orders that have begun and not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweeps(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Number of orders that had more than one stretch.
    numbers: u64,
    going: Vec<Going>,
}

#[derive(Debug)]
struct Going {
    number: u64,
    asked: Bulk,
    by: String,
    /// Where its next stretch begins.
    next: i64,
    /// Number of jobs so far.
    count: u64,
}

/// What a stretch means for the log.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It was the last one: so many jobs in all.
    Over(u64),
    /// It was the first one of several, of the order with this number.
    First(u64),
    Goes,
}

impl Sweeps {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a stretch that was carried out, with the line of its order. The line is logged with the total once the
    /// order is over, and meanwhile if that takes long.
    pub(super) async fn took(&self, asked: &Bulk, swept: &Swept, line: Line, log: &Sender<Request>) {
        let by = line.by.clone().unwrap_or_default();
        match self.add(asked, &by, swept) {
            Step::Over(count) => say(&line, &format!(": {count}"), log).await,
            Step::First(number) => drop(tokio::spawn(self.clone().watch(number, line, log.clone()))),
            Step::Goes => {}
        }
    }

    fn add(&self, asked: &Bulk, by: &str, swept: &Swept) -> Step {
        // What changes from stretch to stretch.
        let order = Bulk { after: None, limit: None, ..asked.clone() };
        let mut inner = self.lock();
        let is_it = |one: &Going| asked.after == Some(one.next) && one.by == by && one.asked == order;
        let Some(at) = inner.going.iter().position(is_it) else {
            let Some(next) = swept.next.filter(|_| inner.going.len() < MOST) else {
                return Step::Over(swept.count);
            };
            inner.numbers += 1;
            let (number, count) = (inner.numbers, swept.count);
            inner.going.push(Going { number, asked: order, by: by.to_owned(), next, count });
            return Step::First(number);
        };
        let one = &mut inner.going[at];
        one.count += swept.count;
        match swept.next {
            None => Step::Over(inner.going.swap_remove(at).count),
            Some(next) => {
                one.next = next;
                Step::Goes
            }
        }
    }

    /// Says how far an order is, until it is over or its author asks for no more.
    async fn watch(self, number: u64, line: Line, log: Sender<Request>) {
        let (mut before, mut silent) = (None, 0);
        loop {
            tokio::time::sleep(BETWEEN).await;
            let Some((next, count)) = self.far(number) else { return };
            silent = if before == Some(next) { silent + 1 } else { 0 };
            if silent == SILENCE {
                self.lock().going.retain(|one| one.number != number);
                return say(&line, &format!(": {count}, and the rest was not asked for"), &log).await;
            }
            if before != Some(next) {
                say(&line, &format!(": {count} so far"), &log).await;
            }
            before = Some(next);
        }
    }

    /// Where the next stretch of an order begins, and the jobs so far.
    fn far(&self, number: u64) -> Option<(i64, u64)> {
        self.lock().going.iter().find(|one| one.number == number).map(|one| (one.next, one.count))
    }
}

async fn say(line: &Line, more: &str, log: &Sender<Request>) {
    let line = Line { message: format!("{}{more}", line.message), ..line.clone() };
    // A supervisor that is ending loses the line alone.
    log.send(Request::Log(line)).await.ok();
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{Receiver, channel};
    use tracing::Level;

    use super::*;
    use model::JobState;
    use model::verb::Act;

    fn retry(after: Option<i64>, limit: Option<u64>) -> Bulk {
        let (group, class, queue, since) = (None, None, None, None);
        Bulk {
            act: Act::Retry,
            state: JobState::Failed,
            group,
            class,
            queue,
            since,
            limit,
            dry_run: false,
            after,
        }
    }

    fn line(by: &str) -> Line {
        Line { by: Some(by.into()), ..Line::new(Level::INFO, "retried") }
    }

    fn logged(log: &mut Receiver<Request>) -> Vec<String> {
        let lines = std::iter::from_fn(|| log.try_recv().ok());
        lines
            .filter_map(|request| if let Request::Log(line) = request { Some(line.message) } else { None })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn order_of_many_stretches_is_one_line_with_its_total() {
        let (sweeps, (log, mut lines)) = (Sweeps::default(), channel(9));
        let swept = |count, next| Swept { count, next, ..Swept::default() };
        for (after, next) in [(None, Some(7)), (Some(7), Some(9)), (Some(9), None)] {
            // That of another person goes on beside it.
            for by in ["ann", "ben"] {
                sweeps.took(&retry(after, Some(5000)), &swept(1000, next), line(by), &log).await;
            }
        }
        sweeps.took(&retry(None, None), &swept(3, None), line("ann"), &log).await;
        tokio::time::sleep(BETWEEN * 20).await;
        assert_eq!(logged(&mut lines), ["retried: 3000", "retried: 3000", "retried: 3"]);
    }

    #[tokio::test(start_paused = true)]
    async fn order_that_takes_long_says_how_far_it_is_and_one_that_breaks_off_where() {
        let (sweeps, (log, mut lines)) = (Sweeps::default(), channel(9));
        let swept = |next| Swept { count: 1000, next: Some(next), ..Swept::default() };
        sweeps.took(&retry(None, None), &swept(7), line("ann"), &log).await;
        tokio::time::sleep(BETWEEN + BETWEEN / 2).await;
        sweeps.took(&retry(Some(7), None), &swept(9), line("ann"), &log).await;
        tokio::time::sleep(BETWEEN * 20).await;
        let expected =
            ["retried: 1000 so far", "retried: 2000 so far", "retried: 2000, and the rest was not asked for"];
        assert_eq!(logged(&mut lines), expected);
        assert!(sweeps.lock().going.is_empty());
    }
}
