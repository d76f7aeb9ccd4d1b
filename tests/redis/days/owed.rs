//! A Redis that is away while a supervisor starts: what its dead predecessor held is released later.

use std::time::Duration;

use broker::{Broker, Fetch, Opening};
use model::{ClassFilter, Fetched, NewJob, Payload, SlotId, Take, WorkerId};
use tokio::runtime::{Builder, Runtime};

use crate::sandbox::{kill, wait_until};
use crate::support::RedisServer;

/// Waits for an answer; gives the jobs.
fn fetch(runtime: &Runtime, broker: &Broker) -> Vec<Fetched> {
    let worker = |index| WorkerId { slot: SlotId { pool: 0, index }, generation: 1 };
    let request = Fetch {
        instance: "me".into(),
        queues: vec!["default".into()],
        take: Take::InOrder,
        filter: ClassFilter::default(),
        pool: "default".into(),
        workers: (1..=2).map(worker).collect(),
        lease: Duration::from_secs(60),
    };
    let mut given = Vec::new();
    wait_until("Redis answers", || {
        runtime.block_on(broker.fetch(request.clone())).map(|jobs| given = jobs).is_ok()
    });
    given
}

/// A process of the kept job may live: no other worker may run it.
#[test]
fn job_to_keep_stays_held_if_redis_was_away_at_the_restart() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    for kind in ["", "rq+", "reliable+"] {
        let (server, state) = (RedisServer::start(), tempfile::tempdir().unwrap());
        let broker = || {
            let (place, state_dir) = ("here".into(), state.path().to_owned());
            let how = Opening { serves: true, place, state_dir, ..Opening::default() };
            brokers::address(&format!("{kind}{}", server.url())).unwrap().open(&how).unwrap()
        };
        let before = broker();
        let job = || NewJob::new("default".into(), "app.f".into(), Payload::Data("[1]".into()));
        runtime.block_on(before.put(vec![job(), job()])).unwrap();
        let held = fetch(&runtime, &before);
        let kept = (held[0].job.id.clone(), held[0].lease.fence);
        drop(before);
        let now = broker();
        let pid = i32::try_from(server.pid()).unwrap();
        kill(pid, "STOP");
        assert_eq!(runtime.block_on(now.recover("me".into(), vec![kept])), Ok(0), "{kind}: it is owed");
        kill(pid, "CONT");
        let given: Vec<_> = fetch(&runtime, &now).into_iter().map(|one| one.job.id.clone()).collect();
        assert_eq!(given, [held[1].job.id.clone()], "{kind}");
    }
}
