//! A job that runs at another host is canceled from here: its supervisor hears of that with its next renewal.

use std::time::Duration;

use broker::{Broker, Fetch, Opening, Renewal, Settling};
use model::verb::{Cancel, Each, Fate, Refusal};
use model::{
    ClassFilter, Failure, Fetched, JobState, NewJob, Payload, Settlement, SlotId, Take, Verdict, WorkerId,
};
use redis::Commands;

use crate::support::RedisServer;

const LEASE: Duration = Duration::from_secs(60);

/// Two hosts on one Redis.
struct Hosts {
    server: RedisServer,
    hosts: [Broker; 2],
    _dirs: [tempfile::TempDir; 2],
}

impl Hosts {
    fn new() -> Hosts {
        let server = RedisServer::start();
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let hosts = [0, 1].map(|at: usize| {
            let how = Opening {
                serves: true,
                place: format!("{at}"),
                state_dir: dirs[at].path().to_owned(),
                ..Opening::default()
            };
            brokers::address(&format!("reliable+{}", server.url())).unwrap().open(&how).unwrap()
        });
        Hosts { server, hosts, _dirs: dirs }
    }

    async fn put(&self, id: &str) {
        let job = NewJob::new("default".into(), "klass".into(), Payload::Data("{}".into()));
        self.hosts[0].put(vec![NewJob { id: Some(id.into()), ..job }]).await.unwrap();
    }

    async fn fetch(&self) -> Fetched {
        let request = Fetch {
            instance: "me".into(),
            queues: vec!["default".into()],
            take: Take::InOrder,
            filter: ClassFilter::default(),
            pool: "default".into(),
            workers: vec![WorkerId { slot: SlotId { pool: 0, index: 1 }, generation: 1 }],
            lease: LEASE,
        };
        self.hosts[0].fetch(request).await.unwrap().pop().unwrap()
    }

    /// Asked at the other host.
    async fn cancel(&self, id: &str) -> Fate {
        let asked = Cancel { jobs: vec![id.into()], dependents: false, reason: None };
        let each: Vec<Each> = self.hosts[1].tell(asked, "me").await.unwrap();
        each[0].fate.clone()
    }
}

#[tokio::test]
async fn job_of_another_host_is_canceled_whatever_its_verdict() {
    let failure = Failure { group: "x".into(), message: "x".into(), trace: None };
    for verdict in [
        Verdict::Canceled,
        Verdict::Retry { after: Duration::from_secs(9), failure: failure.clone() },
        Verdict::Fail { failure },
        Verdict::Release { after: Duration::ZERO, counts: None },
    ] {
        let hosts = Hosts::new();
        hosts.put("j").await;
        let job = hosts.fetch().await;
        assert_eq!(hosts.cancel("j").await, Fate::State(JobState::Canceling));
        let renewals = hosts.hosts[0].renew(vec![job.lease.clone()], LEASE).await.unwrap();
        assert!(matches!(renewals[0], Renewal::Canceling(_)), "{renewals:?}");
        let (job, fence) = (job.lease.job, job.lease.fence);
        let end = Settlement { job, fence, verdict: verdict.clone(), crashed: false, forensics: None };
        let settled = hosts.hosts[0].settle(vec![end]).await.unwrap();
        assert_eq!(settled, [Settling::Settled(JobState::Canceled)], "{verdict:?}");
        let mut redis = hosts.server.connect();
        let left: [i64; 3] =
            [redis.hlen("values"), redis.llen("pending"), redis.zcard("working")].map(Result::unwrap);
        assert_eq!(left, [0, 0, 0], "{verdict:?}");
    }
}

#[tokio::test]
async fn cancel_of_what_does_not_run_says_in_which_state_it_is() {
    let hosts = Hosts::new();
    hosts.put("j").await;
    assert_eq!(hosts.cancel("none").await, Fate::Refused(Refusal::NoJob));
    assert_eq!(hosts.cancel("j").await, Fate::Refused(Refusal::State { state: JobState::Waiting }));
    // A worker of the tutorial has it, whom nobody can tell anything.
    let mut redis = hosts.server.connect();
    let _: i64 = redis.lrem("pending", 1, "j").unwrap();
    let _: i64 = redis.zadd("working", "j", 4_000_000_000_i64).unwrap();
    assert_eq!(hosts.cancel("j").await, Fate::Refused(Refusal::State { state: JobState::Running }));
    let _: i64 = redis.zrem("working", "j").unwrap();
    let _: i64 = redis.hset("results", "j", "1").unwrap();
    assert_eq!(hosts.cancel("j").await, Fate::Refused(Refusal::State { state: JobState::Complete }));
}
