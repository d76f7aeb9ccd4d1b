"""Jobs shared by reqless, with the script that it brings, and by ours: interop.py URL SCRIPT."""

import json
import logging
import sys
import time

import reqless

logging.disable(logging.CRITICAL)
url, path = sys.argv[1:]
theirs, ours = reqless.Client(url), reqless.Client(url)
theirs.worker_name, ours.worker_name = "theirs", "ours"
with open(path) as script:
    ours._lua = ours.redis.register_script(script.read())
CLASS = "app.Work"


def later(client, seconds, *command):
    """Calls a command with a time in the future."""
    return client._lua(keys=[], args=[command[0], repr(time.time() + seconds), *command[1:]])


def told(action):
    """The messages on all channels during a function."""
    ears = ours.redis.pubsub()
    ears.psubscribe("ql:*")
    while ears.get_message(timeout=5)["type"] != "psubscribe":
        pass
    action()
    ours.redis.publish("ql:end", "")
    heard = []
    while (message := ears.get_message(timeout=5))["channel"] != "ql:end":
        heard.append((message["channel"], json.loads(message["data"])))
    ears.close()
    return heard


def put(client, queue, jid, **more):
    return client.queues[queue].put(CLASS, json.dumps({"n": 1}), jid=jid, **more)


def each_way(story):
    story(theirs, ours, "there")
    story(ours, theirs, "back")


def a_job_is_put_by_one_and_done_by_the_other(one, other, way):
    put(one, way, way, priority=3, tags=["red"])
    job = other.queues[way].pop()
    assert (job.jid, job.priority, job.tags, job.state) == (way, 3, ["red"], "running"), job
    assert one.jobs[way].worker_name == other.worker_name
    assert job.heartbeat() > time.time()
    assert job.complete() == "complete"
    assert one.jobs[way].state == "complete" and way in one.jobs.complete()
    assert [event["what"] for event in one.jobs[way].history] == ["put", "popped", "done"]


def a_failure_of_one_is_put_back_by_the_other(one, other, way):
    jid = f"failed-{way}"
    put(one, jid, jid)
    one.queues[jid].pop().fail(f"group-{way}", "why")
    assert [job.jid for job in other.jobs.failed(f"group-{way}")["jobs"]] == [jid]
    assert other.unfail(f"group-{way}", jid) == 1
    assert one.queues[jid].pop().failure["message"] == "why"
    assert f"group-{way}" not in one.jobs.failed()


def a_cancel_by_one_reaches_the_worker_of_the_other(one, other, way):
    jid = f"canceled-{way}"
    put(one, jid, jid)
    job = one.queues[jid].pop()
    heard = told(lambda: other("cancel", jid))
    event = {"jid": jid, "queue": jid, "event": "canceled", "worker": one.worker_name}
    assert heard == [("ql:log", event), (f"ql:w:{one.worker_name}", event)], heard
    try:
        job.heartbeat()
    except reqless.exceptions.LostLockError:
        return
    raise AssertionError("a canceled job was renewed")


def a_lease_of_one_ends_and_the_other_takes_the_job(one, other, way):
    jid = f"lost-{way}"
    put(one, jid, jid)
    one.queues[jid].pop()
    heard = told(lambda: later(other, 61, "pop", jid, other.worker_name, 1))
    assert (f"ql:w:{one.worker_name}", {"jid": jid, "event": "lock_lost", "worker": one.worker_name}) in heard, heard
    (job,) = json.loads(later(other, 72, "pop", jid, other.worker_name, 1))
    assert (job["worker"], job["remaining"]) == (other.worker_name, 4), job


def one_job_waits_for_that_of_the_other(one, other, way):
    first, second = f"first-{way}", f"second-{way}"
    put(one, first, first)
    put(other, second, second, depends=[first])
    assert one.jobs[second].state == "depends" and one.queues[second].pop() is None
    other.queues[first].pop().complete()
    assert one.queues[second].pop().jid == second


def a_retry_and_a_delay_of_one_are_the_others(one, other, way):
    jid = f"retried-{way}"
    put(one, jid, jid, retries=3)
    assert other.queues[jid].pop().retry() == 2
    job = one.queues[jid].pop()
    assert (job.retries_left, job.original_retries) == (2, 3)
    job.move(f"moved-{way}", delay=1000)
    assert other.queues[f"moved-{way}"].pop() is None
    (job,) = json.loads(later(other, 1001, "pop", f"moved-{way}", other.worker_name, 1))
    assert job["jid"] == jid


def what_recurs_for_one_is_put_by_the_other(one, other, queue):
    # One direction only: the script of reqless fails for recurring jobs without its own fields.
    one.queues[queue].recur(CLASS, "{}", interval=60, jid=queue)
    assert other.queues[queue].pop().jid == f"{queue}-1"
    (job,) = json.loads(later(one, 65, "pop", queue, one.worker_name, 1))
    assert (job["jid"], job["spawned_from_jid"]) == (f"{queue}-2", queue), job
    assert other.jobs[queue].count == 2
    other.jobs[queue].cancel()
    assert one.jobs[queue] is None


def both_show_the_same(one, other, way):
    queue = f"shown-{way}"
    put(one, queue, queue, tags=["same"])
    one.queues[queue].pop()
    put(other, queue, f"{queue}-delayed", delay=1000)
    for command in [("queues",), ("queues", queue), ("workers",), ("stats", queue, time.time()), ("failed",)]:
        mine, yours = json.loads(one(*command)), json.loads(other(*command))
        assert without_throttles(mine) == without_throttles(yours), (command, mine, yours)
    mine, yours = json.loads(one("get", queue)), json.loads(other("get", queue))
    assert without_throttles(mine) == without_throttles(yours), (mine, yours)


def without_throttles(value):
    """The fields of qless in an answer: reqless adds its own."""
    if isinstance(value, list):
        return [without_throttles(item) for item in value]
    if isinstance(value, dict):
        return {name: without_throttles(item) for name, item in value.items() if not name.startswith("throttle")}
    return value


def what_reqless_adds_survives(redis):
    theirs.throttles["shared"].set_maximum(1)
    put(theirs, "throttled", "t1", throttles=["shared"])
    before = redis.hget("ql:j:t1", "throttles")
    assert "shared" in before
    redis.hset("ql:j:t1", "of_another", "kept")
    job = ours.queues["throttled"].pop()
    job.heartbeat()
    job.retry()
    ours.queues["throttled"].pop().fail("group", "why")
    ours.unfail("group", "throttled")
    put(ours, "throttled", "t1")
    ours("complete", ours.queues["throttled"].pop().jid, "ours", "throttled", "{}")
    assert redis.hget("ql:j:t1", "throttles") == before
    assert redis.hget("ql:j:t1", "of_another") == "kept"
    assert theirs.throttles["shared"].maximum() == 1


for story in [
    a_job_is_put_by_one_and_done_by_the_other,
    a_failure_of_one_is_put_back_by_the_other,
    a_cancel_by_one_reaches_the_worker_of_the_other,
    a_lease_of_one_ends_and_the_other_takes_the_job,
    one_job_waits_for_that_of_the_other,
    a_retry_and_a_delay_of_one_are_the_others,
    both_show_the_same,
]:
    each_way(story)
    print("well:", story.__name__)
what_recurs_for_one_is_put_by_the_other(theirs, ours, "recurs")
print("well: what_recurs_for_one_is_put_by_the_other")
what_reqless_adds_survives(ours.redis)
print("well: what_reqless_adds_survives")
