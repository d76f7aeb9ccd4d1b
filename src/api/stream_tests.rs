//! Streamed answers: long lists, and events.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::fake::{Fake, KEPT, PAGE};
use super::tests::{Served, read_all, served, served_with};
use super::{Error, Limits, Problem};
use model::verb::Retry;
use model::{Filter, Interest, JobId, Millis, PublishedEvent, What};

#[tokio::test]
async fn list_is_streamed_completely_and_in_order() {
    for jobs in [0, 1, PAGE, 3 * PAGE + 7] {
        let served = served_with(Limits::default(), Fake { jobs, ..Fake::default() });
        let expected: Vec<JobId> = (0..jobs).map(|n| format!("j{n}").into()).collect();
        let array = served.client.ask(&Filter::default()).await.unwrap();
        assert_eq!(array.into_iter().map(|job| job.id).collect::<Vec<_>>(), expected);
        assert_eq!(lines(&served, &Filter::default()).await.unwrap(), expected);
        assert_eq!(served.asked().len() as u64, 2 * (jobs / PAGE + 1));
    }
}

/// The ids of a list streamed as lines.
async fn lines(served: &Served, filter: &Filter) -> Result<Vec<JobId>, Error> {
    let mut list = served.client.list(filter).await?;
    let mut ids = Vec::new();
    loop {
        let some = list.next().await?;
        if some.is_empty() {
            return Ok(ids);
        }
        ids.extend(some.into_iter().map(|job| job.id));
    }
}

#[tokio::test]
async fn list_that_breaks_off_is_reported_as_an_error() {
    let served = served_with(Limits::default(), Fake { jobs: 3 * PAGE, ..Fake::default() });
    let broken = Filter { class: Some("broken".into()), ..Filter::default() };
    let Err(Error::Problem(problem)) = lines(&served, &broken).await else { panic!("it is whole") };
    assert_eq!(problem, Problem::unavailable("the disk is gone").hint("mend it"));
    let error = served.client.ask(&broken).await.unwrap_err();
    assert!(matches!(error, Error::Lost(..)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn list_pages_are_read_only_as_fast_as_the_client_reads() {
    let served = served_with(Limits::default(), Fake { jobs: u64::MAX, ..Fake::default() });
    let mut reader = UnixStream::connect(&served.socket).await.unwrap();
    reader.write_all(b"GET /v1/jobs HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let before = Instant::now();
    // The paused clock advances only when all tasks wait: after the socket buffers are full.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (pages, mut byte) = (served.asked().len(), [0]);
    assert!(pages < 100, "{pages}");
    let shown_out = loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        match reader.read(&mut byte).await {
            Ok(1) if before.elapsed() < Duration::from_secs(3600) => {}
            other => break other,
        }
    };
    assert!(
        served.asked().len() < pages + 3600 / 1000 + 2,
        "a byte a second is not waited for with more pages"
    );
    drop((shown_out, reader));
    served.client.ask(&Retry { job: "a".into() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn list_for_a_stalled_client_is_aborted() {
    let served = served_with(Limits::default(), Fake { jobs: u64::MAX, ..Fake::default() });
    let mut reader = UnixStream::connect(&served.socket).await.unwrap();
    reader.write_all(b"GET /v1/jobs HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    tokio::time::sleep(Limits::default().stall_timeout + Duration::from_secs(1)).await;
    let pages = served.asked().len();
    read_all(reader).await;
    assert_eq!(served.asked().len(), pages, "nothing was read for it after it had been shown out");
}

/// Publishes an event of this kind for this job.
fn tell(served: &Served, n: u64, what: What, job: &str) {
    let news = PublishedEvent {
        n,
        job: Some(job.into()),
        queue: Some("mail".into()),
        ..PublishedEvent::new(what, Millis(5))
    };
    served.fake.news.send(Arc::new(news)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn subscribers_get_only_the_events_they_asked_for() {
    let served = served(Limits::default());
    let (all, failures) =
        (Interest::default(), Interest { kinds: vec![What::Failed, What::Held], ..Interest::default() });
    let of_b = Interest { job: Some("b".into()), queue: Some("mail".into()), ..Interest::default() };
    let mut listening = Vec::new();
    for interest in [&all, &failures, &of_b] {
        listening.push(served.client.events(interest).await.unwrap());
    }
    tell(&served, 1, What::Put, "a");
    tell(&served, 2, What::Failed, "b");
    tell(&served, 3, What::Held, "c");
    for (lines, expected) in listening.iter_mut().zip([&[1, 2, 3][..], &[2, 3], &[2]]) {
        let mut heard = Vec::new();
        while heard.len() < expected.len() {
            heard.extend(lines.next().await.unwrap().into_iter().map(|news| news.n));
        }
        assert_eq!(heard, expected);
    }
    drop(listening);
    while served.fake.news.receiver_count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn event_stream_sends_keep_alives_and_numbered_events() {
    let served = served(Limits::default());
    let mut reader = UnixStream::connect(&served.socket).await.unwrap();
    reader.write_all(b"GET /v1/events?kind=complete HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut text = String::new();
    while text.matches(":\n\n").count() < 4 {
        text += &some(&mut reader).await;
    }
    assert!(text.contains("text/event-stream"), "{text}");
    tell(&served, 7, What::Put, "a");
    tell(&served, 8, What::Complete, "a");
    while !text.contains("data: ") {
        text += &some(&mut reader).await;
    }
    let expected = "id: 8\nevent: complete\ndata: {\"n\":8,\"at\":\"1970-01-01T00:00:00.005Z\",\"at_ms\":5,\"kind\":\"complete\",\"job\":\"a\",\"queue\":\"mail\"}\n\n";
    assert!(text.contains(expected), "{text}");
}

#[tokio::test(start_paused = true)]
async fn events_that_come_together_are_sent_together() {
    let served = served(Limits::default());
    let mut reader = UnixStream::connect(&served.socket).await.unwrap();
    reader.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    while !some(&mut reader).await.contains(":\n\n") {}
    for n in 1..=3 {
        tell(&served, n, What::Put, "a");
    }
    let mut text = String::new();
    while !text.contains("data: ") {
        text = some(&mut reader).await;
    }
    // A chunk is its length and its bytes, each with an end of line.
    assert_eq!((text.matches("data: ").count(), text.matches("\r\n").count()), (3, 2), "{text}");
}

#[tokio::test(start_paused = true)]
async fn reader_that_asks_for_a_pause_gets_one_message_in_it_with_many_jobs_counted() {
    let served = served(Limits::default());
    let pause = Duration::from_millis(250);
    let interest = Interest { pause: Some(pause), ..Interest::default() };
    let mut lines = served.client.events(&interest).await.unwrap();
    tell(&served, 1, What::Put, "first");
    let first = lines.next().await.unwrap();
    let (named, began) = (|news: &PublishedEvent| news.job.as_ref().map(ToString::to_string), Instant::now());
    assert_eq!(
        first.iter().map(|news| (news.n, named(news))).collect::<Vec<_>>(),
        [(1, Some("first".into()))]
    );
    for n in 2..=46 {
        tell(&served, n, What::Put, "a");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let rest = lines.next().await.unwrap();
    assert_eq!(
        rest.iter().map(|news| (news.n, named(news), news.count)).collect::<Vec<_>>(),
        [(46, None, Some(45))]
    );
    assert!(began.elapsed() >= pause, "{:?}", began.elapsed());
    // After a pause in which nothing happened, an event comes at once.
    tokio::time::sleep(pause * 2).await;
    tell(&served, 47, What::Failed, "b");
    let last = tokio::time::timeout(Duration::from_millis(20), lines.next()).await.expect("at once");
    assert_eq!(last.unwrap().iter().map(named).collect::<Vec<_>>(), [Some("b".into())]);
}

#[tokio::test(start_paused = true)]
async fn event_stream_sends_keep_alives_though_other_events_are_filtered() {
    let served = served(Limits::default());
    let mut reader = UnixStream::connect(&served.socket).await.unwrap();
    reader.write_all(b"GET /v1/events?kind=failed HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut text = String::new();
    while !text.contains(":\n\n") {
        text += &some(&mut reader).await;
    }
    let before = Instant::now();
    text.clear();
    while !text.contains(":\n\n") {
        assert!(before.elapsed() < Duration::from_secs(16), "nothing came");
        tell(&served, 1, What::Complete, "a");
        let moment = tokio::time::timeout(Duration::from_millis(100), some(&mut reader));
        text += &moment.await.unwrap_or_default();
    }
    assert!(before.elapsed() > Duration::from_secs(14), "{text}");
}

#[tokio::test(start_paused = true)]
async fn event_stream_ends_properly_with_the_supervisor_for_any_filter() {
    let served = served(Limits::default());
    let failures = Interest { kinds: vec![What::Failed], ..Interest::default() };
    let mut lines = served.client.events(&failures).await.unwrap();
    tell(&served, 1, What::Put, "a");
    served.fake.news.send(Arc::new(PublishedEvent::new(What::Ended, Millis(5)))).unwrap();
    let some = lines.next().await.unwrap();
    assert_eq!(some.into_iter().map(|news| news.what).collect::<Vec<_>>(), [What::Ended]);
    assert!(lines.next().await.unwrap().is_empty(), "the answer is whole");
    served.fake.news.closed().await;
}

#[tokio::test]
async fn very_long_line_is_scanned_once() {
    let served = served(Limits::default());
    let mut lines = served.client.events(&Interest::default()).await.unwrap();
    let long = "x".repeat(48 << 20);
    let news = PublishedEvent { why: Some(long.clone()), ..PublishedEvent::new(What::Put, Millis(5)) };
    let before = std::time::Instant::now();
    served.fake.news.send(Arc::new(news)).unwrap();
    let some = lines.next().await.unwrap();
    assert!(
        some.iter().eq([&PublishedEvent { why: Some(long), ..PublishedEvent::new(What::Put, Millis(5)) }])
    );
    // Scanning the whole line again for each piece would take minutes.
    assert!(before.elapsed() < Duration::from_secs(40), "{:?}", before.elapsed());
}

/// The next bytes, as text.
async fn some(reader: &mut UnixStream) -> String {
    let mut bytes = [0; 1024];
    let count = reader.read(&mut bytes).await.unwrap();
    std::str::from_utf8(&bytes[..count]).unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn slow_subscriber_loses_events_with_a_notice_and_delays_no_other() {
    let served = served(Limits::default());
    let mut lines = served.client.events(&Interest::default()).await.unwrap();
    let mut heard = Vec::new();
    let total = 100_000;
    for n in 1..=total {
        tell(&served, n, What::Put, "a");
        // Other tasks get their turn; this listener does not read.
        if n % (KEPT as u64) == 0 {
            tokio::task::yield_now().await;
        }
    }
    let (mut lost, mut last) = (0, 0);
    while last < total {
        let some = lines.next().await.unwrap();
        lost += some.iter().filter_map(|news| news.count).sum::<u64>();
        last = some.iter().map(|news| news.n).max().unwrap_or(0).max(last);
        heard.extend(some.into_iter().filter(|news| news.what == What::Put).map(|news| news.n));
    }
    assert!(lost > 0, "this test has to be slower than its news");
    assert_eq!(heard.len() as u64 + lost, total);
    assert!(heard.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn subscriber_that_reads_nothing_is_disconnected() {
    let served = served(Limits::default());
    let mut reader = UnixStream::connect(&served.socket).await.unwrap();
    reader.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    while served.fake.news.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    let before = Instant::now();
    while served.fake.news.receiver_count() > 0 {
        assert!(before.elapsed() < Duration::from_secs(3600), "it is still there");
        drop(served.fake.news.send(Arc::new(PublishedEvent::new(What::Put, Millis(5)))));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    read_all(reader).await;
}

#[tokio::test]
async fn unknown_event_kind_is_refused_with_the_known_ones() {
    let served = served(Limits::default());
    let answer =
        served.raw("GET /v1/events?kind=born HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 400")
            && answer.contains("no kind of event is called 'born'; there are put"),
        "{answer}"
    );
}
