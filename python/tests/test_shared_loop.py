"""Jobs of mode coroutine that take from their neighbours what they share: tasks, the loop, its threads, a signal."""

import json
import os
import signal
import sys

import rq_installed
from support import HERE, PACKAGE, WorkerTest, some_pythons


class SharedLoop(WorkerTest):
    def coroutines(self, **options):
        return self.worker(mode="coroutine", concurrency=4, module="sample_shares_loop", **options)

    def waiting(self, worker, *ids, data=None):
        for id in ids:
            worker.run("waits", data, id=id)
            self.assertEqual(worker.receive()[0], "progress")

    def dones(self, worker, count):
        done, self.logs, self.warnings = {}, {}, []
        while len(done) < count:
            name, fields = worker.receive()
            self.assertIsNotNone(name, worker.stderr())
            if name == "done":
                done[fields["job"]] = fields
            elif name == "log":
                self.logs[fields["job"]] = self.logs.get(fields["job"], "") + fields["text"] + "\n"
            elif name == "warning":
                self.warnings.append(fields["text"])
        return done

    def test_neighbours_of_a_job_that_cancels_all_tasks_are_given_back_and_it_is_named(self):
        for whom, ends in (("all", "failed"), ("others", "complete")):
            worker = self.coroutines()
            self.waiting(worker, "a")
            self.waiting(worker, "b", data=["hides it"])
            worker.run("cancels", [whom], id="c")
            # Its task is canceled before its first step.
            worker.run("waits", id="d")
            done = self.dones(worker, 3)
            self.assertEqual(done["c"]["outcome"], ends)
            for id in "ab":
                self.assertEqual((done[id]["outcome"], done[id]["after"]), ("snooze", 1), done[id])
                self.assertIn("its task was canceled by job c (cancels)", done[id]["error"]["message"])
            self.assertIn("canceled by job c (cancels) in its worker. The job was here:", self.logs["a"])
            self.assertIn("job c (cancels) has canceled the task of job a, which runs again", "".join(self.warnings))
            self.assertIn("cancel only the tasks that the job has made", self.logs["c"])

    def test_job_that_catches_a_neighbours_cancellation_and_fails_later_has_failed(self):
        worker = self.coroutines()
        self.waiting(worker, "a", data=["goes on"])
        worker.run("cancels", ["others"], id="c")
        done = self.dones(worker, 2)
        self.assertEqual((done["a"]["outcome"], done["a"]["error"]["group"].rpartition(".")[2]), ("failed", "TimeoutError"))

    def test_job_whose_own_task_is_canceled_with_it_is_given_back(self):
        worker = self.coroutines()
        for how in ("awaits", "gathers", "converts"):
            with self.subTest(how=how):
                # In whichever order: `all_tasks` is a set.
                for id in ("a", "b", "d"):
                    worker.run("awaits_its_task", [how], id=how + id)
                    self.assertEqual(worker.receive()[0], "progress")
                worker.run("cancels", ["others"], id=how + "c")
                done = self.dones(worker, 4)
                self.assertEqual([done[how + id]["outcome"] for id in "abcd"], ["snooze", "snooze", "complete", "snooze"])

    def test_job_that_is_canceled_before_its_first_step_is_answered(self):
        worker = self.coroutines()
        # Both come in one read, so that the task of the second one exists when the first one cancels all.
        frames = [{"run": {"job": {"id": id, "fence": 7, "class": name, "queue": "q", "data": None, "attempt": 1,
                                   "priority": 0, "tags": []}}} for id, name in (("c", "cancels"), ("d", "waits"))]
        worker.socket.sendall("".join(json.dumps(frame) + "\n" for frame in frames).encode())
        done = self.dones(worker, 2)
        self.assertEqual((done["c"]["outcome"], done["d"]["outcome"]), ("failed", "snooze"))

    def test_job_that_cancels_itself_has_failed(self):
        worker = self.coroutines()
        for how in ("raises", "awaits", "cancels", "in a thread"):
            done = worker.outcome("cancels_itself", [how])
            self.assertEqual((done["outcome"], done["error"]["group"].rpartition(".")[2]), ("failed", "CancelledError"))

    def test_job_that_nobody_known_has_canceled_waits_again_and_that_is_counted(self):
        worker = self.coroutines()
        self.waiting(worker, "a")
        worker.run("cancels_from_a_thread", ["unknown"], id="c")
        done = self.dones(worker, 2)
        self.assertEqual((done["a"]["outcome"], done["a"]["error"]["message"]),
                         ("canceled", "its task was canceled by code that belongs to no job in its worker"))

    def test_job_that_cancels_a_neighbour_from_its_own_thread_is_named(self):
        worker = self.coroutines()
        self.waiting(worker, "a")
        worker.run("cancels_from_a_thread", id="c")
        done = self.dones(worker, 2)
        self.assertEqual(done["a"]["outcome"], "snooze")
        self.assertIn("job c (cancels_from_a_thread)", done["a"]["error"]["message"])

    def check_methods(self, **options):
        worker = self.coroutines(**options)
        self.waiting(worker, "a")
        for name in ("stop", "close", "shutdown_default_executor", "shutdown_asyncgens"):
            done = worker.outcome("spoils", [name])
            self.assertEqual(done["outcome"], "failed")
            self.assertIn(f"a job must not call {name}()", done["error"]["message"])
        self.assertEqual(worker.outcome("in_executor")["result"], True)
        self.assertEqual(worker.outcome("stops_from_a_thread")["result"], "goes on")
        self.assertEqual(worker.outcome("interrupts")["result"], "survived")
        worker.run("cancels", id="c")
        done = self.dones(worker, 2)
        self.assertEqual((done["a"]["outcome"], done["c"]["outcome"]), ("snooze", "failed"))
        worker.send("shutdown")
        self.assertEqual(worker.wait(), 0)

    def test_no_job_ends_the_loop_or_its_threads(self):
        self.check_methods()

    @some_pythons
    def test_no_job_ends_a_loop_of_uvloop(self):
        if not (3, 8) <= sys.version_info < (3, 14):
            self.skipTest("this uvloop is for Python 3.8 to 3.13")
        path = ":".join([PACKAGE, HERE, rq_installed.site("0.21.0", "uvloop")])
        self.check_methods(env={"PYTHONPATH": path, "TEST_UVLOOP": "1"})

    def test_timer_of_faulthandler_that_a_job_leaves_ends_no_neighbour(self):
        worker = self.coroutines()
        self.assertEqual(worker.outcome("arms")["outcome"], "complete")
        worker.run("waits_long_enough", id="a")
        self.assertEqual(worker.done()["result"], "whole")

    def test_job_that_handles_sigterm_takes_it_from_nobody(self):
        worker = self.coroutines()
        self.assertEqual(worker.outcome("handles_term", ["signal"])["result"], "ignores it")
        self.waiting(worker, "a")
        worker.run("handles_term", ["loop"], id="b")
        self.assertEqual(worker.receive()[0], "progress")
        os.kill(worker.pid, signal.SIGTERM)
        said = []
        for name, fields in iter(worker.receive, (None, None)):
            said.append((name, fields.get("job"), fields.get("text", "")))
        self.assertTrue(any(job == "b" and "its handler was called" in text for _, job, text in said), said)
        self.assertEqual(worker.wait(), 0)


if __name__ == "__main__":
    import unittest
    unittest.main()
