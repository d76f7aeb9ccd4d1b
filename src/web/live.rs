//! What happens, for the pages that are open: which parts of a page have changed, at most four times a second.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, sleep, timeout};

use api::Client;
use model::{Interest, PublishedEvent, What};

/// Least time between two messages to a page. The supervisor lets changes within it go together: to send each would cost
/// more than all else that it does for a page.
const PAUSE: Duration = Duration::from_millis(250);
/// How long the subscription to the supervisor outlives the last open page: following a link closes one page before the
/// next is open.
const LINGER: Duration = Duration::from_secs(2);
/// How often pages are asked to look again where there are no events, as without a supervisor.
const BLIND: Duration = Duration::from_secs(5);
/// Limit of the events that are kept for the page of events.
const LATEST: usize = 200;
/// How long events are collected after somebody has opened the page of events in a browser without scripts.
const ALONE: Duration = Duration::from_secs(60);

/// The subscription to the supervisor, which all open pages share.
#[derive(Clone)]
pub(crate) struct Live {
    out: broadcast::Sender<Arc<str>>,
    state: Arc<Mutex<State>>,
}

struct State {
    is_subscribed: bool,
    /// Until when it goes on without an open page.
    alone_until: Instant,
    changed: Instant,
    /// The newest at the front.
    latest: VecDeque<PublishedEvent>,
}

impl Default for Live {
    fn default() -> Self {
        let now = Instant::now();
        let state = State { is_subscribed: false, alone_until: now, changed: now, latest: VecDeque::new() };
        // A page that falls further behind looks at everything, so little need be kept.
        Live { out: broadcast::Sender::new(16), state: Arc::new(Mutex::new(state)) }
    }
}

impl Live {
    /// When something changed last, as far as is known.
    pub(crate) fn changed(&self) -> Instant {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).changed
    }

    /// Notes that something has changed: an order of a reader was carried out.
    pub(crate) fn touch(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).changed = Instant::now();
    }

    /// The latest events, the newest first.
    pub(crate) fn latest(&self) -> Vec<PublishedEvent> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.latest.iter().cloned().collect()
    }

    /// Listens for a while, for a reader whose browser runs no script.
    pub(crate) fn linger(&self, client: &Client) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).alone_until = Instant::now() + ALONE;
        drop(self.listen(Some(client)));
    }

    /// Whether nobody listens, and nobody has asked to go on.
    fn is_over(&self, state: &State) -> bool {
        self.out.receiver_count() == 0 && state.alone_until <= Instant::now()
    }

    fn is_unheard(&self) -> bool {
        self.is_over(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hear(&self, topics: &mut BTreeSet<String>, news: &PublishedEvent) {
        add(topics, news);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.latest.push_front(news.clone());
        state.latest.truncate(LATEST);
    }

    /// Messages from now on. The first page that listens subscribes to the supervisor.
    pub(crate) fn listen(&self, client: Option<&Client>) -> broadcast::Receiver<Arc<str>> {
        // Before the lock: under it `follow` counts the receivers before it ends.
        let receiver = self.out.subscribe();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.is_subscribed {
            state.is_subscribed = true;
            tokio::spawn(self.clone().follow(client.cloned()));
        }
        receiver
    }

    async fn follow(self, client: Option<Client>) {
        loop {
            match &client {
                Some(client) => self.pass_on(client).await,
                None => {
                    sleep(BLIND).await;
                    self.say("*");
                }
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_over(&state) {
                state.is_subscribed = false;
                return;
            }
        }
    }

    /// Passes events on until they end, or until nobody listens.
    async fn pass_on(&self, client: &Client) {
        let interest = Interest { pause: Some(PAUSE), ..Interest::default() };
        // A supervisor that starts again is tried once a second.
        let Ok(mut lines) = client.events(&interest).await else {
            sleep(Duration::from_secs(1)).await;
            self.say("down");
            return;
        };
        // Whatever happened before is not known.
        self.say("*");
        loop {
            // One wait for all of the silence: it ends when the supervisor is silent for too long, as one that hangs.
            let next = async {
                let next = lines.next();
                tokio::pin!(next);
                loop {
                    match timeout(LINGER, &mut next).await {
                        Ok(news) => return Some(news),
                        Err(_) if self.is_unheard() => return None,
                        Err(_) => {}
                    }
                }
            };
            let news = match next.await {
                Some(Ok(news)) if !news.is_empty() => news,
                Some(_) => return self.say("down"),
                None => return,
            };
            let mut topics = BTreeSet::new();
            news.iter().for_each(|news| self.hear(&mut topics, news));
            self.tell(topics);
            if self.is_unheard() {
                return;
            }
        }
    }

    fn tell(&self, topics: BTreeSet<String>) {
        // They are encoded, so that no name holds the blank between two words.
        let words: Vec<String> = topics.into_iter().collect();
        self.say(&words.join(" "));
    }

    fn say(&self, topics: &str) {
        self.touch();
        // Without a listener there is nothing to tell.
        let _ = self.out.send(topics.into());
    }
}

/// The words for an event: `jobs`, `job:ID`, `queue:NAME`, `workers`, `recurring`, `orders`.
fn add(topics: &mut BTreeSet<String>, news: &PublishedEvent) {
    if let Some(job) = &news.job {
        topics.insert("jobs".into());
        topics.insert(format!("job:{}", crate::text::encoded(job.as_str())));
    }
    // Any job may be among them.
    if news.is_of_many() {
        topics.extend(["jobs".into(), "job:*".into()]);
    }
    if let Some(queue) = &news.queue {
        topics.insert(format!("queue:{}", crate::text::encoded(queue.as_str())));
    }
    let of_workers =
        [What::Started, What::Ready, What::Asked, What::Killed, What::Exited, What::Scaled, What::Recycled];
    if of_workers.contains(&news.what) {
        topics.insert("workers".into());
    // Of lost events it is not known what they changed.
    } else if news.what == What::Lost {
        topics.insert("*".into());
    } else if news.job.is_none() && !news.is_of_many() {
        topics.insert("orders".into());
    }
}

/// The pieces of an answer that goes on.
pub(crate) struct Pieces(pub mpsc::Receiver<String>);

impl Stream for Pieces {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Bytes::from(piece))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Millis;

    #[tokio::test]
    async fn looks_at_the_events_leave_nothing_behind_and_are_heard_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let (live, client) = (Live::default(), Client::new(dir.path().join("nobody")));
        tokio::time::pause();
        (0..100).for_each(|_| live.linger(&client));
        assert_eq!(live.out.receiver_count(), 0);
        let goes_on = || live.state.lock().unwrap().is_subscribed;
        sleep(ALONE - Duration::from_secs(5)).await;
        assert!(goes_on());
        sleep(Duration::from_secs(10)).await;
        assert!(!goes_on());
    }

    #[tokio::test]
    async fn supervisor_that_hangs_is_told_as_one_that_is_away() {
        use tokio::io::AsyncWriteExt as _;
        let dir = tempfile::tempdir().unwrap();
        let listener = tokio::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let _hangs = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        });
        let live = Live::default();
        let mut heard = live.listen(Some(&Client::new(dir.path().join("socket"))));
        assert_eq!(&*heard.recv().await.unwrap(), "*");
        tokio::time::pause();
        let told = timeout(Duration::from_secs(3600), heard.recv()).await.expect("it says nothing for ever");
        assert_eq!(&*told.unwrap(), "down");
    }

    #[test]
    fn event_names_what_it_changes() {
        let mut topics = BTreeSet::new();
        let job = PublishedEvent {
            job: Some("a b".into()),
            queue: Some("mail".into()),
            ..PublishedEvent::new(What::Failed, Millis(0))
        };
        add(&mut topics, &job);
        add(&mut topics, &PublishedEvent::new(What::Ready, Millis(0)));
        let many = PublishedEvent { count: Some(90), job: None, queue: Some("post".into()), ..job };
        add(&mut topics, &many);
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        assert_eq!(topics, ["job:*", "job:a%20b", "jobs", "queue:mail", "queue:post", "workers"]);
    }
}
