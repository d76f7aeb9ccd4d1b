"""The worker with several jobs at a time."""

import asyncio
import signal
import socket
import sys
import threading
import time
import unittest
from collections import defaultdict

import rq_installed
from support import HERE, PACKAGE, WorkerTest

from taskvisor.worker.outgoing import Outgoing


class Backlog(unittest.TestCase):
    def setUp(self):
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.loop = asyncio.new_event_loop()
        self.gone = []
        self.outgoing = Outgoing(self.loop, self.ours.fileno(), self.gone.append)
        for closes in (self.ours, self.theirs, self.loop):
            self.addCleanup(closes.close)

    def fill(self):
        with self.assertRaises(BlockingIOError):
            while True:
                self.ours.send(b"x" * 4096)

    def test_send_to_a_full_socket_does_not_copy_earlier_lines(self):
        self.fill()
        lines = [b"%d\n" % number * 100 for number in range(2_000)]
        for line in lines:
            self.outgoing.send_now(line)
        kept = list(self.outgoing._frames)
        self.assertIs(kept[-1], lines[-1])
        self.assertEqual(b"".join(kept), b"".join(lines))

    def test_backlog_is_sent_completely_and_in_order(self):
        self.fill()
        lines = [b"%d\n" % number * size for number, size in enumerate((1, 20_000, 300_000, 1, 1, 1000) * 3)]
        for line in lines:
            self.outgoing.send_now(line)
        received = []
        reader = threading.Thread(target=lambda: received.extend(iter(lambda: self.theirs.recv(50_000), b"")))
        reader.start()
        self.outgoing.drain()
        self.ours.shutdown(socket.SHUT_WR)
        reader.join()
        self.assertEqual(b"".join(received).lstrip(b"x"), b"".join(lines))
        self.assertEqual((self.outgoing._bytes, self.gone), (0, []))


class Coroutines(WorkerTest):
    def coroutines(self, concurrency=4, **options):
        return self.worker(mode="coroutine", concurrency=concurrency, **options)

    def dones(self, worker, count):
        """Reads until `count` jobs are done; keeps their log lines by job in `logs`."""
        done, self.logs, self.others = {}, defaultdict(list), []
        while len(done) < count:
            name, fields = worker.receive()
            if name == "done":
                done[fields["job"]] = fields
            elif name == "log":
                self.logs[fields["job"]] += fields["text"].split("\n")
            else:
                self.assertIsNotNone(name, worker.stderr())
                self.others.append((name, fields))
        return done

    def test_tasks_and_plain_functions_run_side_by_side(self):
        worker = self.coroutines()
        worker.run("async_add", [1], id="a")
        worker.run("plain_thread", id="b")
        worker.run("raise_error", ["value"], id="c")
        worker.run("Nobody", id="d")
        done = self.dones(worker, 4)
        self.assertEqual(done["a"], {"job": "a", "fence": 7, "outcome": "complete", "result": 2})
        self.assertEqual(done["b"]["result"], ["b", False])
        self.assertEqual((done["c"]["outcome"], done["c"]["error"]["group"]), ("failed", "ValueError"))
        self.assertNotIn("coroutine.py", done["c"]["error"]["trace"])
        self.assertEqual(done["d"]["outcome"], "unknown_class")
        self.assertEqual(self.logs["b"], ["from a plain function"])

    def test_async_flag_selects_the_mode_coroutine(self):
        worker = self.worker("--async", concurrency=2)
        worker.run("plain_thread")
        self.assertEqual(worker.done()["result"], ["j1", False])

    def test_every_exception_of_a_job_becomes_an_outcome(self):
        worker = self.coroutines()
        for kind, outcome in [("retry", "retry"), ("snooze", "snooze"), ("fail", "failed_for_good"),
                              ("exit", "failed"), ("interrupt", "failed")]:
            self.assertEqual(worker.outcome("raise_error", [kind])["outcome"], outcome)
        self.assertEqual(worker.outcome("async_add", {"x": 1})["outcome"], "failed_for_good")
        self.assertEqual(worker.outcome("result", ["nan"])["result"]["$taskvisor"], "not kept")

    def test_advance_of_a_coroutine_names_the_next_queue(self):
        done = self.coroutines().outcome("async_film")
        self.assertEqual((done["outcome"], done["next"]), ("complete", {"queue": "encode"}))

    def test_a_hundred_jobs_run_at_once(self):
        worker = self.coroutines(100)
        for number in range(100):
            worker.run("async_wait", id=f"j{number}")
        waiting = [worker.receive() for _ in range(100)]
        self.assertEqual({fields["job"] for name, fields in waiting if name == "progress"},
                         {f"j{number}" for number in range(100)})
        for number in range(100):
            worker.send("cancel", job=f"j{number}", why="enough")
        done = self.dones(worker, 100)
        self.assertEqual({fields["outcome"] for fields in done.values()}, {"canceled"})

    def test_a_hundred_plain_functions_run_at_once(self):
        worker = self.coroutines(100)
        for number in range(100):
            worker.run("busy_thread", id=f"j{number}")
        self.assertEqual([worker.receive()[0] for _ in range(100)], ["progress"] * 100)
        for number in range(100):
            worker.send("cancel", job=f"j{number}", why="enough")
        self.assertEqual(len(self.dones(worker, 100)), 100)

    def test_output_and_log_lines_go_to_their_own_job(self):
        worker = self.coroutines(10)
        for number in range(10):
            worker.run("chatter", [f"n{number}"], id=f"j{number}")
        self.dones(worker, 10)
        for number in range(10):
            printed = [line for line in self.logs[f"j{number}"] if line.endswith("!")]
            logged = [line for line in self.logs[f"j{number}"] if not line.endswith("!")]
            self.assertEqual(printed, [f"n{number} {step}!" for step in range(20)])
            self.assertEqual(logged, [f"WARNING sample: n{number} {step}" for step in range(20)])
        self.assertEqual((worker.stdout(), worker.stderr()), ("", ""))

    def test_unfinished_line_is_sent_before_done(self):
        worker = self.coroutines()
        worker.run("say", ["a\nb"])
        self.dones(worker, 1)
        self.assertEqual(sorted(self.logs["j1"]), ["INFO sample: logged a", "a", "a", "b", "b", "b", "no newline"])

    def test_flood_of_output_waits_for_the_supervisor_and_arrives_completely(self):
        worker = self.coroutines()
        worker.run("flood", [10_000])
        self.dones(worker, 1)
        self.assertEqual(len(self.logs["j1"]), 10_000)

    def test_threads_and_tasks_of_a_job_belong_to_it(self):
        worker = self.coroutines()
        worker.run("thread_job", id="x")
        self.assertEqual(self.dones(worker, 1)["x"]["result"], ["x", "x"])
        self.assertEqual(self.logs["x"], ["in a thread"])

    def test_output_before_a_crash_is_sent(self):
        for class_name, how, status in (("crash", "exit", 3), ("crash", "fault", -11), ("crash_in_thread", None, -11)):
            worker = self.worker(mode="coroutine")
            worker.run(class_name, None if how is None else [how])
            printed = []
            for name, fields in iter(worker.receive, (None, None)):
                self.assertEqual(name, "log")
                printed.append(fields["text"])
            self.assertEqual(worker.wait(), status)
            self.assertEqual(printed, ["the last line", "and one on stderr"][:2 if how else 1])

    def test_log_shows_where_a_canceled_task_was(self):
        worker = self.worker(mode="coroutine")
        worker.run("async_nap")
        self.assertEqual(worker.receive()[0], "progress")
        worker.send("cancel", job="j1", why="time limit")
        self.assertEqual(worker.done()["outcome"], "canceled")
        said = "\n".join(fields["text"] for name, fields in worker.seen if name == "log")
        self.assertIn("asked to end: time limit. The job was here:", said)
        self.assertRegex(said, r"in nap\n    await asyncio.sleep\(30\)")

    def test_cancel_of_a_task_is_answered_after_its_cleanup(self):
        worker = self.coroutines()
        worker.run("async_wait", [0.02])
        self.assertEqual(worker.receive()[0], "progress")
        worker.send("cancel", job="j1", why="canceled by someone")
        worker.send("cancel", job="other", why="of no job that it has")
        self.assertEqual(self.dones(worker, 1)["j1"], {"job": "j1", "fence": 7, "outcome": "canceled"})
        self.assertEqual(self.others, [("progress", {"job": "j1", "message": "really over"})])

    def test_soft_time_limit_leaves_out_the_time_in_which_the_process_was_stopped(self):
        worker = self.coroutines()
        # The third job gets no answer: it cannot wait for ever.
        for stops, least in (([0.5], 0.55), ([], 0.05), ([None], 1.05)):
            worker.stops, begun = stops, time.monotonic()
            done = worker.outcome("async_wait", [0.01], soft_time_limit=0.05)
            self.assertEqual(done["error"]["group"], "SoftTimeLimitExceeded")
            self.assertLessEqual(least, time.monotonic() - begun)

    def test_task_that_is_told_to_end_sees_its_grace(self):
        worker = self.coroutines()
        worker.run("async_time_to_leave", grace=10)
        self.assertEqual(worker.receive()[0], "progress")
        worker.send("cancel", job="j1", why="canceled by someone")
        self.assertEqual(self.dones(worker, 1)["j1"]["outcome"], "canceled")
        [(_, said)] = self.others
        self.assertTrue(0 < float(said["message"]) <= 10)

    def test_cancel_that_comes_with_the_job_is_answered_too(self):
        worker = self.coroutines()
        for _ in range(20):
            worker.run("async_wait")
            worker.send("cancel", job="j1", why="at once")
            self.assertEqual(self.dones(worker, 1)["j1"]["outcome"], "canceled")

    def test_cancel_of_a_plain_function_is_answered_when_it_has_ended(self):
        worker = self.coroutines()
        worker.run("busy_thread")
        self.assertEqual(worker.receive()[0], "progress")
        worker.send("cancel", job="j1", why="canceled by someone")
        self.assertEqual(worker.done(), {"job": "j1", "fence": 7, "outcome": "canceled"})
        self.assertEqual(worker.seen, [("progress", {"job": "j1", "message": "really over"})])

    def test_put_goes_over_the_channel_from_tasks_and_threads(self):
        worker = self.coroutines()
        for class_name, data in [("put_inside", None), ("aput_inside", None), ("aput_inside", [True])]:
            worker.run(class_name, data)
            name, fields = worker.receive()
            self.assertEqual((name, fields["verb"]), ("call", "put"))
            # Frames before the reply must not get lost.
            worker.run("async_add", [5], id="k")
            worker.send("ping")
            worker.send("reply", n=fields["n"], ok={"ids": ["made"]})
            done = self.dones(worker, 2)
            self.assertEqual((done["j1"]["result"], done["k"]["result"]), ("made", 6))
            while ("pong", {}) not in self.others:
                self.others.append(worker.receive())

    def test_ping_is_answered_while_jobs_run(self):
        worker = self.coroutines()
        worker.run("async_wait")
        self.assertEqual(worker.receive()[0], "progress")
        worker.send("ping")
        self.assertEqual(worker.receive(), ("pong", {}))

    def test_five_megabytes_go_in_and_out(self):
        text = "ü" * 2_500_000
        self.assertEqual(self.coroutines().outcome("sample.echo", [text])["result"], text)

    def test_a_task_that_exits_does_not_end_the_others(self):
        worker = self.coroutines()
        worker.run("async_wait", id="other")
        worker.receive()
        self.assertEqual(worker.outcome("exit_in_task")["result"], "survived")
        worker.send("cancel", job="other", why="enough")
        self.assertEqual(worker.done()["outcome"], "canceled")

    def test_child_processes_of_a_job_do_not_use_the_channel(self):
        worker = self.coroutines()
        for class_name, result in [("fork_and_return", 0), ("async_fork_and_return", 0),
                                   ("children", ["from a program\n", -signal.SIGTERM])]:
            worker.run(class_name)
            self.assertEqual(self.dones(worker, 1)["j1"]["result"], result)
        self.assertEqual(worker.outcome("async_add", [1])["result"], 2)

    def test_a_job_that_closes_the_channel_ends_the_worker_with_a_message(self):
        for again in (False, True):
            worker = self.coroutines()
            worker.run("close", [3, again])
            self.assertEqual(worker.wait(), 1)
            self.assertEqual(worker.receive(), (None, None))
            self.assertIn("descriptor 3 was closed by a job", worker.stderr())

    def test_shutdown_waits_for_the_jobs(self):
        worker = self.coroutines()
        worker.run("async_wait")
        worker.receive()
        worker.send("shutdown")
        worker.send("cancel", job="j1", why="enough")
        self.assertEqual(worker.done()["outcome"], "canceled")
        self.assertEqual(worker.wait(), 0)

    def test_job_that_blocks_the_loop_fails_and_its_neighbours_are_given_back(self):
        for how in ("itself", "in a task"):
            worker = self.coroutines()
            for id in ("a", "b"):
                worker.run("async_nap", id=id, time_limit=2)
                self.assertEqual(worker.receive()[0], "progress")
            worker.run("blocks", [how], id="c")
            done = self.dones(worker, 3)
            for id in ("a", "b"):
                self.assertEqual((done[id]["outcome"], done[id]["after"], done[id]["error"]["group"]),
                                 ("snooze", 1, "EventLoopBlocked"))
                self.assertIn("job c blocked the event loop", done[id]["error"]["message"])
            failed = done["c"]
            self.assertEqual((failed["outcome"], failed["error"]["group"]), ("failed", "EventLoopBlocked"))
            self.assertRegex(failed["error"]["trace"],
                             r"in (blocks|inside)\n.*blocks_here(.|\n)*in blocks_here\n.*time.sleep")
            self.assertNotIn("/taskvisor/", failed["error"]["trace"])
            (name, warning), = [frame for frame in self.others if frame[0] == "warning"]
            self.assertIn("job c blocked the event loop", warning["text"])
            self.assertIn("It was here:", "".join(self.logs["c"]))
            self.assertEqual(worker.wait(), 1)

    def test_job_that_blocks_a_loop_of_uvloop_fails_and_its_neighbours_are_given_back(self):
        if not (3, 8) <= sys.version_info < (3, 14):
            self.skipTest("this uvloop is for Python 3.8 to 3.13")
        path = ":".join([PACKAGE, HERE, rq_installed.site("0.21.0", "uvloop")])
        # The context of a task can be read from Python 3.12 on.
        for how in ("itself", "in a task")[:1 + (sys.version_info >= (3, 12))]:
            worker = self.coroutines(module="sample_with_uvloop", env={"PYTHONPATH": path})
            worker.run("async_nap", id="a", time_limit=2)
            self.assertEqual(worker.receive()[0], "progress")
            worker.run("blocks", [how], id="c")
            done = self.dones(worker, 2)
            self.assertEqual((done["a"]["outcome"], done["a"]["error"]["group"]), ("snooze", "EventLoopBlocked"))
            self.assertEqual((done["c"]["outcome"], done["c"]["error"]["group"]), ("failed", "EventLoopBlocked"))
            trace = done["c"]["error"]["trace"]
            self.assertRegex(trace, r"^  File .*in (blocks|inside)\n.*blocks_here(.|\n)*in blocks_here\n.*time.sleep")
            self.assertNotIn("/taskvisor/", trace)
            self.assertEqual(worker.wait(), 1)

    def test_job_that_is_busy_and_lets_a_loop_of_uvloop_turn_blocks_nobody(self):
        if not (3, 8) <= sys.version_info < (3, 14):
            self.skipTest("this uvloop is for Python 3.8 to 3.13")
        path = ":".join([PACKAGE, HERE, rq_installed.site("0.21.0", "uvloop")])
        worker = self.coroutines(module="sample_with_uvloop", env={"PYTHONPATH": path})
        worker.run("async_nap", id="a", time_limit=2)
        self.assertEqual(worker.receive()[0], "progress")
        worker.run("is_busy", [3], id="c")
        done = self.dones(worker, 1)
        self.assertEqual(list(done), ["c"])
        self.assertEqual(done["c"]["outcome"], "complete")

    def test_job_that_keeps_the_lock_fails_and_neighbours_that_are_over_their_limit_are_given_back(self):
        worker = self.coroutines()
        worker.run("async_nap", id="a", time_limit=1)
        self.assertEqual(worker.receive()[0], "progress")
        worker.run("computes", [2], id="c")
        self.assertEqual(worker.receive(), ("log", {"job": "c", "text": "computes"}))
        worker.send("cancel", job="a", why="time limit")
        done = self.dones(worker, 2)
        self.assertEqual((done["a"]["outcome"], done["a"]["error"]["group"]), ("snooze", "EventLoopBlocked"))
        self.assertEqual((done["c"]["outcome"], done["c"]["error"]["group"]), ("failed", "EventLoopBlocked"))
        self.assertIn("in computes_here", done["c"]["error"]["trace"])
        self.assertEqual(worker.wait(), 1)

    def test_job_that_was_not_read_until_its_limit_was_over_is_given_back(self):
        worker = self.coroutines()
        worker.run("computes", [2], id="c")
        self.assertEqual(worker.receive(), ("log", {"job": "c", "text": "computes"}))
        worker.run("async_nap", id="a", time_limit=1)
        worker.send("cancel", job="a", why="time limit")
        self.assertEqual({id: done["outcome"] for id, done in self.dones(worker, 2).items()},
                         {"a": "snooze", "c": "failed"})
        self.assertEqual(worker.wait(), 1)

    def test_what_ended_in_a_thread_while_the_loop_was_blocked_is_kept(self):
        worker = self.coroutines()
        for class_name, fields in (("returns_meanwhile", {}), ("async_nap", {"time_limit": 2})):
            worker.run(class_name, id=class_name, **fields)
            self.assertEqual(worker.receive()[0], "progress")
        worker.run("lets_return_and_blocks", id="blocks")
        done = self.dones(worker, 3)
        self.assertEqual({id: found["outcome"] for id, found in done.items()},
                         {"returns_meanwhile": "complete", "async_nap": "snooze", "blocks": "failed"})
        self.assertEqual(done["returns_meanwhile"]["result"], "whole")

    def test_jobs_that_a_blocked_loop_has_not_read_are_given_back(self):
        worker = self.coroutines()
        worker.run("blocks", id="c")
        self.assertEqual(worker.receive(), ("log", {"job": "c", "text": "blocks"}))
        for id in ("a", "b"):
            worker.run("async_nap", id=id, time_limit=2)
        self.assertEqual({id: done["outcome"] for id, done in self.dones(worker, 3).items()},
                         {"a": "snooze", "b": "snooze", "c": "failed"})
        self.assertEqual(worker.wait(), 1)

    def test_more_threads_of_asyncio_run_at_once_than_there_are_jobs(self):
        worker = self.coroutines(concurrency=60)
        for number in range(2):
            worker.run("many_threads", [30], id=f"j{number}")
        self.assertEqual({id: done["outcome"] for id, done in self.dones(worker, 2).items()},
                         {"j0": "complete", "j1": "complete"})

    def test_sigterm_without_a_job_exits_0(self):
        worker = self.coroutines()
        worker.kill()
        self.assertEqual(worker.wait(), 0)
        self.assertEqual(worker.stderr(), "")

    def test_sigterm_interrupts_the_jobs_and_ends_the_worker_after_them(self):
        worker = self.coroutines()
        worker.run("async_wait", id="a")
        worker.run("busy_thread", id="b")
        self.assertEqual([worker.receive()[0], worker.receive()[0]], ["progress"] * 2)
        worker.kill()
        # The worker does not know who sent SIGTERM: it reports no outcome for several jobs, so each runs again alone.
        self.assertEqual(self.dones(worker, 1)["b"]["result"], "seen")
        self.assertEqual(worker.wait(), 0)

    def test_sigterm_interrupts_a_job_that_is_alone(self):
        worker = self.coroutines()
        worker.run("async_wait", id="a")
        worker.receive()
        worker.kill()
        done = self.dones(worker, 1)["a"]
        self.assertEqual((done["outcome"], done["error"]["group"]), ("canceled", "Interrupted"))
        self.assertEqual(worker.wait(), 0)

    def test_end_of_file_ends_the_worker_even_with_jobs(self):
        worker = self.coroutines()
        worker.hang_up()
        self.assertEqual(worker.wait(), 0)
        worker = self.coroutines()
        worker.run("wait")
        worker.receive()
        worker.hang_up()
        self.assertEqual(worker.wait(), 1)


if __name__ == "__main__":
    unittest.main()
