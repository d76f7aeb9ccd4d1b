//! Thousands of queues of other programs: no call of the script goes through all of them.

use std::collections::BTreeSet;

use crate::sandbox::wait_until;
use crate::supervisors::Scene;
use crate::support::Monitor;

/// A call of so many commands takes less than 50 ms, also on a slow machine.
const SHORT: usize = 6_000;
const QUEUES: usize = 3_000;

/// Fills queues: in each a job that waits and one that was complete; a group of failures for each.
const FILL: &str = "
  for i = 1, tonumber(ARGV[1]) do
    local queue = 'other-' .. i
    redis.call('ZADD', 'ql:queues', i, queue)
    for _, state in ipairs({'waiting', 'complete', 'failed'}) do
      local jid = state .. '-' .. i
      redis.call('HSET', 'ql:j:' .. jid, 'jid', jid, 'klass', 'k', 'data', '{}', 'priority', 0, 'tags', '[]', 'state',
        state, 'queue', state == 'waiting' and queue or '', 'retries', 5, 'remaining', 5, 'time', i)
      if state == 'waiting' then redis.call('ZADD', 'ql:q:' .. queue .. '-work', -i, jid) end
      if state == 'complete' then redis.call('ZADD', 'ql:completed', i, jid) end
      if state == 'failed' then
        redis.call('SADD', 'ql:failures', 'failed-retries-' .. queue)
        redis.call('LPUSH', 'ql:f:failed-retries-' .. queue, jid)
      end
    end
  end
  return 1";

fn filled() -> Scene {
    let scene = Scene::new();
    let _: i64 = scene.other().raw_call(&["EVAL", FILL, "0", &QUEUES.to_string()]);
    scene
}

#[test]
fn no_call_goes_through_the_jobs_of_thousands_of_queues() {
    let scene = filled();
    let mut monitor = Monitor::new(scene.server.borrow().as_ref().unwrap());
    let lists: [(&[&str], usize); 7] = [
        (&["queue", "list"], QUEUES + 1),
        (&["job", "list", "-n", "10", "--json"], 10),
        (&["job", "list", "--state", "failed", "-n", "10", "--json"], 10),
        (&["job", "list", "--state", "waiting,running", "-n", "10", "--json"], 10),
        (&["job", "list", "--queue", "other-77", "--json"], 1),
        (&["why", "job", "waiting-5"], 2),
        (&["failed"], 50),
    ];
    for (args, lines) in lists {
        let shown = scene.ok(args);
        let count = shown.lines().count();
        assert!(count >= lines, "{args:?}: {count} lines");
        let (most, call) = monitor.most();
        assert!(most < SHORT, "{args:?}: {most} commands in one call of {call}");
    }
    let shown = scene.ok(&["job", "list", "--state", "waiting", "-n", "0", "--json"]);
    let id = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string();
    let ids: BTreeSet<String> = shown.lines().map(id).collect();
    assert_eq!((ids.len(), shown.lines().count()), (QUEUES, QUEUES), "each job once");
}

#[test]
fn no_call_of_a_supervisor_goes_through_thousands_of_queues() {
    let scene = filled();
    let mut monitor = Monitor::new(scene.server.borrow().as_ref().unwrap());
    let mut other = scene.other();
    let _running = scene.start(&["-w", "1"]);
    scene.ok(&["job", "wait", scene.ok(&["put", "--", "true"]).trim()]);
    // It removes the statistics of a day that is too old.
    let mut look = || other.raw::<Option<String>>("HGET ql:taskvisor:look day").is_some();
    wait_until("the old days are removed", || {
        scene.ok(&["job", "wait", scene.ok(&["put", "--", "true"]).trim()]);
        look()
    });
    assert!(scene.sandbox.ok(&["status"]).contains("other-3000"));
    scene.ok(&["option", "set", "grace", "9s"]);
    scene.ok(&["job", "discard", "--failed", "--dry-run"]);
    let (most, call) = monitor.most();
    assert!(most < SHORT, "{most} commands in one call of {call}");
}
