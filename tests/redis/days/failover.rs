//! Failover: another server replaces the first one, with all of its writes or without the last ones.

use std::time::{Duration, Instant};

use crate::proxy::Proxy;
use crate::sandbox::{Sandbox, Setting, alive, wait_until};
use crate::sentinel::Sentinel;
use crate::supervisors::Scene;
use crate::support::RedisServer;

fn raw(server: &RedisServer, args: &[&str]) -> redis::Value {
    redis::cmd(args[0]).arg(&args[1..]).query(&mut server.connect()).unwrap()
}

/// The first server says that the job is leased, the second one that it waits, so another supervisor gets it there.
#[test]
fn job_whose_lease_was_lost_in_a_failover_overlaps_only_for_a_moment() {
    let primary = RedisServer::start();
    let replica = primary.start_replica();
    let proxy = Proxy::to(primary.port);
    let scene = Scene::on(primary);
    let second = Sandbox::new(Setting::Root);
    let file = scene.sandbox.work("pids");
    let line = format!("echo $$ >>{}; exec sleep 1000", file.display());
    let jid = scene.ok(&["put", "--", "sh", "-c", &line]).trim().to_owned();
    wait_until("the replica has the job", || {
        let mut asked = replica.connect();
        redis::cmd("EXISTS").arg(format!("ql:j:{jid}")).query::<i64>(&mut asked).unwrap() == 1
    });
    raw(&replica, &["REPLICAOF", "NO", "ONE"]);
    let pids = || -> Vec<i32> {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let settings = ["-w", "1", "--lease", "12s", "--grace", "1s"];
    let _first = scene.start_by(&proxy.url(), &settings);
    wait_until("the job runs by the primary's word", || pids().len() == 1);
    scene.server_dies();
    proxy.lead_to(replica.port);
    proxy.cut();
    let _second = second.start(&[&["-b", &replica.url()][..], &settings].concat());
    wait_until("it runs by the replica's word", || pids().len() == 2);
    let began = Instant::now();
    wait_until("the first run is dead", || !alive(pids()[0]));
    assert!(began.elapsed() < Duration::from_secs(12) / 3, "within a renewal: {:?}", began.elapsed());
    assert!(alive(pids()[1]));
    *scene.server.borrow_mut() = Some(replica);
    assert_eq!(pids().len(), 2);
}

#[test]
fn supervisor_follows_the_new_primary_that_the_sentinel_names() {
    let primary = RedisServer::start();
    let _replica = primary.start_replica();
    let sentinel = Sentinel::of(&RedisServer::program(), primary.port, "");
    wait_until("the sentinel knows the replica", || sentinel.knows_replicas());
    let mut scene = Scene::on(primary);
    // One of the sentinels in the URL is away.
    scene.url = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{}/jobs/0", sentinel.port);
    let _running = scene.start(&["-w", "2"]);
    let (jid, pid) = scene.a_long_job();
    wait_until("the replica has it all", || scene.server.borrow().as_ref().unwrap().is_replicated());
    scene.server_dies();
    let began = Instant::now();
    scene.assert_goes_on();
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert!(alive(pid));
    assert_eq!(scene.job(&jid)["attempt"], 1);
    scene.ok(&["job", "cancel", "--wait", &jid]);
    assert!(!alive(pid));
}

#[test]
fn supervisor_sends_the_sentinel_password() {
    let primary = RedisServer::start();
    let sentinel = Sentinel::of(&RedisServer::program(), primary.port, "requirepass s3cret%\n");
    let mut scene = Scene::on(primary);
    scene.url = format!("redis+sentinel://127.0.0.1:{}/jobs/0?sentinel_pass=s3cret%25", sentinel.port);
    assert_eq!(scene.ok(&["put", "--jid", "j", "--", "true"]), "j\n");
    scene.url = format!("redis+sentinel://127.0.0.1:{}/jobs/0", sentinel.port);
    let said = scene.sandbox.run(&["-b", &scene.url, "queue", "list"]);
    assert!(!said.status.success());
}

#[test]
fn unknown_primary_name_and_a_sentinel_used_as_redis_are_refused() {
    let primary = RedisServer::start();
    let sentinel = Sentinel::of(&RedisServer::program(), primary.port, "");
    let sandbox = Sandbox::new(Setting::Root);
    let refusal = |url: &str| sandbox.refused(&["-b", url, "put", "--", "true"]).1;
    let said = refusal(&format!("redis+sentinel://127.0.0.1:{}/other/0", sentinel.port));
    assert!(said.contains("/other/") && said.contains("watch no primary of that name"), "{said}");
    let said = refusal(&format!("redis://127.0.0.1:{}", sentinel.port));
    assert!(said.contains("redis+sentinel://"), "{said}");
}
