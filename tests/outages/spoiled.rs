//! Another program has spoiled the keys of one job: only that job cannot be renewed and settled until they are mended. The
//! other jobs of the same call are.

use std::time::Duration;

use broker::{Broker, Error, Fetch, Opening, Renewal, Settling};
use model::{
    ClassFilter, Fetched, JobState, Lease, NewJob, Payload, Settlement, SlotId, Take, Verdict, WorkerId,
};

use crate::redis_server::RedisServer;

const LEASE: Duration = Duration::from_secs(60);

/// What spoils the job `bad`, and what mends it.
type Spoiled = (&'static [&'static str], &'static [&'static str]);

const OF_RQ: Spoiled =
    (&["RENAME rq:job:bad kept", "SET rq:job:bad x"], &["DEL rq:job:bad", "RENAME kept rq:job:bad"]);
const END_OF_RQ: Spoiled = (&["SET rq:results:bad x"], &["DEL rq:results:bad"]);
const OF_RELIABLE: Spoiled =
    (&["COPY taskvisor:jobs kept", "HSET taskvisor:jobs bad x"], &["RENAME kept taskvisor:jobs"]);

pub struct Scene {
    pub server: RedisServer,
    _dir: tempfile::TempDir,
    pub broker: Broker,
}

impl Scene {
    pub fn over(scheme: &str) -> Scene {
        let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
        let how = Opening {
            serves: true,
            place: "here".into(),
            state_dir: dir.path().to_owned(),
            ..Opening::default()
        };
        let url = if scheme == "qless" { server.url() } else { format!("{scheme}+{}", server.url()) };
        let broker = brokers::address(&url).unwrap().open(&how).unwrap();
        Scene { server, _dir: dir, broker }
    }

    pub fn ask(&self, lines: &[&str]) {
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            redis::cmd(words[0]).arg(&words[1..]).exec(&mut self.server.connect()).unwrap();
        }
    }

    pub async fn put(&self, id: &str) {
        let job = NewJob::new("default".into(), "klass".into(), Payload::Data("{}".into()));
        self.broker.put(vec![NewJob { id: Some(id.into()), ..job }]).await.unwrap();
    }

    pub async fn fetch(&self, count: u16) -> Vec<Fetched> {
        self.try_fetch(count).await.unwrap()
    }

    pub async fn try_fetch(&self, count: u16) -> Result<Vec<Fetched>, Error> {
        let worker = |index| WorkerId { slot: SlotId { pool: 0, index }, generation: 1 };
        let request = Fetch {
            instance: "me".into(),
            queues: vec!["default".into()],
            take: Take::InOrder,
            filter: ClassFilter::default(),
            pool: "default".into(),
            workers: (1..=count).map(worker).collect(),
            lease: LEASE,
        };
        self.broker.fetch(request).await
    }

    async fn settle(&self, jobs: &[Fetched]) -> Vec<Settling> {
        let complete = |job: &Fetched| Settlement {
            job: job.lease.job.clone(),
            fence: job.lease.fence,
            verdict: Verdict::Complete { result: None, next: None },
            crashed: false,
            forensics: None,
        };
        self.broker.settle(jobs.iter().map(complete).collect()).await.unwrap()
    }
}

/// The reason why it failed is in words for people.
fn assert_failed(settling: &Settling) {
    let Settling::Failed(error) = settling else { panic!("{settling:?}") };
    let error = error.to_string();
    let begins = error.starts_with("cannot settle job 'bad' in ");
    assert!(
        begins && error.contains("another program has ") && !error.contains("see what that means"),
        "{error}"
    );
}

/// The batch is `fine`, `bad`, `well`: one before the spoiled one, and one behind it.
async fn spoils_no_other((scheme, spoiled): (&str, Spoiled), can_renew: bool) {
    let scene = Scene::over(scheme);
    for id in ["fine", "bad", "well"] {
        scene.put(id).await;
    }
    let jobs = scene.fetch(3).await;
    let leases: Vec<Lease> = jobs.iter().map(|job| job.lease.clone()).collect();
    scene.ask(spoiled.0);
    let renewals = scene.broker.renew(leases, LEASE).await.unwrap();
    let renewed: Vec<bool> = renewals.iter().map(|one| matches!(one, Renewal::Renewed(_))).collect();
    assert_eq!(renewed, [true, can_renew, true], "{renewals:?}");
    assert!(!renewals.iter().any(|one| matches!(one, Renewal::Lost(_))), "{renewals:?}");
    let settlings = scene.settle(&jobs).await;
    let complete = Settling::Settled(JobState::Complete);
    assert_eq!([&settlings[0], &settlings[2]], [&complete, &complete]);
    assert_failed(&settlings[1]);
    scene.ask(spoiled.1);
    assert_eq!(scene.settle(&jobs[1..2]).await, [complete]);
}

#[tokio::test]
async fn job_of_rq_without_its_hash_spoils_no_other_in_its_batch() {
    spoils_no_other(("rq", OF_RQ), false).await;
}

#[tokio::test]
async fn end_that_rq_cannot_keep_spoils_no_other_in_its_batch() {
    spoils_no_other(("rq", END_OF_RQ), true).await;
}

#[tokio::test]
async fn job_of_the_reliable_queue_without_its_entry_spoils_no_other_in_its_batch() {
    spoils_no_other(("reliable", OF_RELIABLE), false).await;
}
