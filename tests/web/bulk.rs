//! An order about thousands of jobs, while its page is open.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use broker::{Broker, Fetch};
use model::{ClassFilter, Failure, NewJob, Payload, Settlement, SlotId, Take, Verdict, WorkerId};
use sqlite::{Options, Sqlite};

use crate::page::{Served, status};
use crate::sandbox::{Sandbox, Setting, wait_until};

/// Jobs that failed and that nobody takes once they wait again.
const MANY: usize = 10_000;
/// Jobs that fail again as soon as they wait.
const AGAIN: usize = 20;
/// How long an answer may take on a busy machine while the order goes on.
const BOUND: Duration = Duration::from_secs(15);

/// Puts jobs and has them fail, as a supervisor does whose workers fail.
fn fail(sandbox: &Sandbox) {
    let store = Broker::from(Sqlite::open(sandbox.path("state/store.db"), Options::default()).unwrap());
    let job = || NewJob::new("mail".into(), "mail.Send".into(), Payload::Data("{}".into()));
    let worker = |index| WorkerId { slot: SlotId { pool: 0, index }, generation: 1 };
    let fetch = || Fetch {
        instance: "another".into(),
        queues: vec!["mail".into()],
        take: Take::InOrder,
        filter: ClassFilter::default(),
        pool: "default".into(),
        workers: (1..=1000).map(worker).collect(),
        lease: Duration::from_secs(600),
    };
    let failure = || Failure { group: "refused".into(), message: "it said no".into(), trace: None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        store.put((0..MANY).map(|_| job()).collect()).await.unwrap();
        let mut failed = 0;
        while failed < MANY {
            let fetched = store.fetch(fetch()).await.unwrap();
            let settlements = fetched.into_iter().map(|one| Settlement {
                job: one.lease.job,
                fence: one.lease.fence,
                verdict: Verdict::Fail { failure: failure() },
                crashed: false,
                forensics: None,
            });
            failed += store.settle(settlements.collect()).await.unwrap().len();
        }
    });
}

/// The figures on the tiles of the overview.
fn tiles(shown: &str) -> BTreeMap<String, usize> {
    let tile = |part: &str| {
        let (name, rest) = part.split_once('"')?;
        let figure = rest.split_once("class=\"figure\">")?.1.split('<').next()?;
        Some((name.to_owned(), figure.replace(',', "").parse().ok()?))
    };
    shown.split("data-tile=\"").skip(1).filter_map(tile).collect()
}

/// How many jobs the command counts in a state.
fn counted(sandbox: &Sandbox, state: &str) -> usize {
    let queues = sandbox.status()["queues"].as_object().unwrap().clone();
    queues.values().filter_map(|queue| queue["jobs"][state].as_u64()).sum::<u64>() as usize
}

#[test]
fn page_answers_and_follows_while_thousands_of_jobs_are_retried_each_once() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "2", "--retries", "0"]);
    for _ in 0..AGAIN {
        sandbox.put(&["false"]);
    }
    wait_until("they have failed", || counted(&sandbox, "failed") == AGAIN);
    fail(&sandbox);
    wait_until("all have failed", || counted(&sandbox, "failed") == AGAIN + MANY);
    let page = Served::start(&sandbox, &[]);
    let (cookie, mine) = (page.enter(), format!("origin: http://127.0.0.1:{}", page.port));
    let fragment = |path: &str| {
        let begun = Instant::now();
        let shown = page.ask("GET", path, &[&cookie, "tv-fragment: 1"], "");
        let took = begun.elapsed();
        assert!(status(&shown) == 200 && took < BOUND, "{path} took {took:?}: {shown}");
        shown
    };
    let (changes, is_over, looks) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let (mut live, code) = page.open("/live", &[&cookie]);
    assert_eq!(code, 200);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut line = String::new();
            while !is_over.load(Ordering::Relaxed) && live.read_line(&mut line).is_ok_and(|read| read > 0) {
                changes.fetch_add(usize::from(line.starts_with("event: changed")), Ordering::Relaxed);
                line.clear();
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for path in ["/", "/jobs?q=state:failed", "/failures", "/queues"] {
                    fragment(path);
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        wait_until("the pages are shown", || looks.load(Ordering::Relaxed) > 0);
        let before = (looks.load(Ordering::Relaxed), changes.load(Ordering::Relaxed));
        let said = page.ask("POST", "/act", &[&cookie, &mine], "act=retry-all&state=failed");
        assert_eq!(status(&said), 303, "{said}");
        // A page that waits for the order would be answered after it.
        assert!(looks.load(Ordering::Relaxed) > before.0, "no page was answered while the order went on");
        // The order goes on behind its answer: the pages show how far it is, in the end as the command does.
        let mut tiles_of = BTreeMap::new();
        wait_until("all wait again, and the page says so", || {
            tiles_of = tiles(&fragment("/"));
            tiles_of["waiting"] == MANY && tiles_of["failed"] == AGAIN
        });
        assert_eq!((counted(&sandbox, "waiting"), counted(&sandbox, "failed")), (MANY, AGAIN));
        wait_until("changes were told", || changes.load(Ordering::Relaxed) > before.1);
        is_over.store(true, Ordering::Relaxed);
        // Something to tell, for the one who listens.
        sandbox.put(&["true"]);
    });
    let kept = rusqlite::Connection::open(sandbox.path("state/store.db")).unwrap();
    let retried: (usize, usize) = kept
        .query_row(
            "SELECT count(*), count(DISTINCT job) FROM history WHERE json_extract(entry, '$.retried') IS NOT NULL",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(retried, (MANY + AGAIN, MANY + AGAIN), "each once");
}
