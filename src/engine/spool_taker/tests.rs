use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use sqlite::Sqlite;

use super::*;
use crate::series;
use model::{JobId, SeriesQuery};

/// The taker of a spool in this directory, with a broker in memory.
fn taker(state: &Path) -> Taker {
    let desk = Desk::open(state, Some(nix::unistd::getegid().as_raw())).unwrap().unwrap();
    Taker::new(desk, &Arc::new(Sqlite::memory().unwrap().into()), SharedSeries::new())
}

/// Leaves a put of this user with one job, which needs these.
fn leave(taker: &Taker, number: u32, id: &str, depends: &str) {
    let path = taker.desk.dir().join(format!("{}.{number}", nix::unistd::geteuid()));
    let job = format!(
        r#"{{"id":"{id}","exists":"skip","queue":"mail","class":"doc.Nobody","depends":[{depends}]}}"#
    );
    fs::write(&path, format!(r#"{{"jobs":[{job}]}}"#)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o1644)).unwrap();
}

async fn is_queued(taker: &Taker, id: &str) -> bool {
    taker.broker.get(JobId::from(id)).await.unwrap().is_some()
}

#[tokio::test]
async fn put_that_needs_one_looked_at_after_it_is_queued_by_the_next_look() {
    let state = tempfile::tempdir().unwrap();
    let mut taker = taker(state.path());
    leave(&taker, 0, "second", r#""first""#);
    leave(&taker, 1, "first", "");
    // Whichever the clock of files has first.
    while taker.pass().await != Some(0) {}
    assert!(is_queued(&taker, "first").await && is_queued(&taker, "second").await);
    assert_eq!(taker.desk.aside(), 0);
    let query = SeriesQuery::default();
    let counted = series::answer(&query, &taker.series.copy(&query), Millis(clock::wall_millis()));
    assert_eq!(counted.series[0].put.iter().sum::<u32>(), 2, "series count puts from the spool");

    leave(&taker, 2, "third", r#""nowhere""#);
    assert_eq!((taker.pass().await, taker.desk.aside()), (Some(1), 0));
    for since in taker.needing.values_mut() {
        *since = Instant(since.0 - NEEDS.as_nanos() as u64);
    }
    assert_eq!((taker.pass().await, taker.desk.aside()), (Some(0), 1), "nothing of that id has come");
    assert!(taker.complaints.latest(REFUSED).is_some());
}

#[tokio::test]
async fn many_links_in_the_spool_hold_up_no_put_and_are_moved_a_hundred_at_a_time() {
    let state = tempfile::tempdir().unwrap();
    let mut taker = taker(state.path());
    for number in 0..150 {
        symlink("nowhere", taker.desk.dir().join(format!("link-{number}"))).unwrap();
    }
    leave(&taker, 0, "one", "");
    assert_eq!((taker.pass().await, taker.desk.aside()), (Some(1), 100));
    assert!(is_queued(&taker, "one").await);
    assert_eq!((taker.pass().await, taker.desk.aside()), (Some(0), 150));
}
