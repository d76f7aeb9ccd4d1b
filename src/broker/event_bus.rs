//! Takes events from the broker and the supervisor, and passes them to all subscribers in the order in which they
//! happened.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast::{Receiver, Sender, channel};

use model::{Millis, PublishedEvent, What};

/// How many events a subscriber may lag behind before it loses the oldest; also how many events wait for earlier ones
/// that are not durable yet.
const KEPT: usize = 4096;
/// How long `close` waits for slow subscribers.
const FAREWELL: Duration = Duration::from_secs(1);

/// The event bus of a supervisor and its broker. A publisher never waits for subscribers.
#[derive(Clone, Debug)]
pub struct EventBus {
    out: Sender<Arc<PublishedEvent>>,
    line: Arc<Mutex<Line>>,
}

/// Events in the order in which they happened. Events of jobs are published once they are durable; later events wait
/// behind them.
#[derive(Debug, Default)]
struct Line {
    /// Number of events published.
    told: u64,
    /// The number of the first place in `places`.
    first: u64,
    /// Events to publish; None while those of a place are not durable yet.
    places: VecDeque<Option<Vec<PublishedEvent>>>,
}

impl Default for EventBus {
    fn default() -> Self {
        EventBus { out: channel(KEPT).0, line: Arc::default() }
    }
}

impl EventBus {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are subscribers: without any, events need not even be made.
    pub fn is_heard(&self) -> bool {
        self.out.receiver_count() > 0
    }

    /// Publishes an event, after all that happened before it.
    pub fn tell(&self, news: PublishedEvent) {
        let mut line = self.line();
        line.places.push_back(Some(vec![news]));
        if line.places.len() > KEPT {
            line.skip();
        }
        line.tell_ready(&self.out);
    }

    /// Reserves a place for events that have just happened and are published later, or never.
    #[must_use]
    pub fn keep_place(&self) -> Turn {
        let mut line = self.line();
        line.places.push_back(None);
        let place = line.first + line.places.len() as u64 - 1;
        Turn { room: self.clone(), place, news: Vec::new() }
    }

    /// Publishes the last event, with the number of unconfirmed verdicts and the processes left alive. Waits until
    /// subscribers have read it, for a second at most.
    pub async fn close(&self, at: Millis, untold: u64, alive: String) {
        let count = (untold > 0).then_some(untold);
        let why = Some(alive).filter(|alive| !alive.is_empty());
        {
            // Events that are not durable by now are never published.
            let mut line = self.line();
            for place in &mut line.places {
                *place = Some(place.take().unwrap_or_default());
            }
            line.tell_ready(&self.out);
        }
        self.tell(PublishedEvent { count, why, ..PublishedEvent::new(What::Ended, at) });
        // Each subscriber goes after this event; with the last one the channel is closed.
        // A slow subscriber gets only this long.
        let _ = tokio::time::timeout(FAREWELL, self.out.closed()).await;
    }

    /// Waits until there are no subscribers.
    pub async fn unheard(&self) {
        self.out.closed().await;
    }

    /// Subscribes to events from now on.
    pub fn listen(&self) -> Receiver<Arc<PublishedEvent>> {
        self.out.subscribe()
    }
}

impl Line {
    /// Skips the first place, so that it does not hold back the others for ever.
    fn skip(&mut self) {
        if let Some(first) = self.places.front_mut() {
            *first = Some(first.take().unwrap_or_default());
        }
    }

    /// Publishes all events up to the first that is not durable yet.
    fn tell_ready(&mut self, out: &Sender<Arc<PublishedEvent>>) {
        while let Some(ready) = self.places.front_mut().and_then(Option::take) {
            self.places.pop_front();
            self.first += 1;
            ready.into_iter().for_each(|news| self.send(out, news));
        }
    }

    fn send(&mut self, out: &Sender<Arc<PublishedEvent>>, news: PublishedEvent) {
        self.told += 1;
        // It fails if the last subscriber has gone.
        let _ = out.send(Arc::new(PublishedEvent { n: self.told, ..news }));
    }
}

/// A reserved place among the events. Dropping it releases the place.
#[derive(Debug)]
pub struct Turn {
    room: EventBus,
    place: u64,
    news: Vec<PublishedEvent>,
}

impl Turn {
    /// Publishes the events for which the place was reserved.
    pub fn tell(mut self, news: Vec<PublishedEvent>) {
        self.news = news;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let news = std::mem::take(&mut self.news);
        let mut line = self.room.line();
        let index = self.place.checked_sub(line.first).and_then(|index| usize::try_from(index).ok());
        match index {
            Some(index) => line.places[index] = Some(news),
            // The place was skipped: publish the events late.
            None => news.into_iter().for_each(|news| line.send(&self.room.out, news)),
        }
        line.tell_ready(&self.room.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(why: &str) -> PublishedEvent {
        PublishedEvent { why: Some(why.into()), ..PublishedEvent::new(What::Put, Millis(1)) }
    }

    fn heard(listener: &mut Receiver<Arc<PublishedEvent>>) -> Vec<(u64, String)> {
        let next = std::iter::from_fn(|| listener.try_recv().ok());
        next.map(|news| (news.n, news.why.clone().unwrap())).collect()
    }

    fn numbered(from: u64, whys: &[&str]) -> Vec<(u64, String)> {
        (from..).zip(whys).map(|(n, why)| (n, (*why).to_owned())).collect()
    }

    #[test]
    fn event_that_is_durable_later_keeps_its_place() {
        let room = EventBus::default();
        let mut listener = room.listen();
        room.tell(news("a"));
        let put = room.keep_place();
        room.tell(news("c"));
        let failed = room.keep_place();
        room.tell(news("d"));
        assert_eq!(heard(&mut listener), numbered(1, &["a"]));
        put.tell(vec![news("b1"), news("b2")]);
        assert_eq!(heard(&mut listener), numbered(2, &["b1", "b2", "c"]));
        // A dropped reservation blocks nothing.
        drop(failed);
        assert_eq!(heard(&mut listener), numbered(5, &["d"]));
    }

    #[test]
    fn reserved_place_times_out() {
        let room = EventBus::default();
        let mut listener = room.listen();
        let put = room.keep_place();
        (0..KEPT).for_each(|_| room.tell(news("after")));
        assert_eq!(heard(&mut listener).len(), KEPT);
        put.tell(vec![news("late")]);
        assert_eq!(heard(&mut listener), numbered(KEPT as u64 + 1, &["late"]));
    }
}
