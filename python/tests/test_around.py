"""What runs around a job: middleware, and sentry-sdk by the log record of an exception."""

import json
import os
import sys
import tempfile
import unittest
from datetime import datetime, timezone
from unittest import mock

import rq_installed

from support import HERE, PACKAGE, Worker

from taskvisor import (Interrupted, Middleware, Retry, Snooze, SoftTimeLimitExceeded, TimeLimitExceeded, current_job, job,
                       middleware)
from taskvisor.client import around
from taskvisor.testing import inline


class MiddlewareTest(unittest.TestCase):
    def worker(self, mode="prefork", **options):
        worker = Worker(module="sample_around", mode=mode, **options)
        self.addCleanup(worker.close)
        return worker

    def test_methods_run_around_each_job_in_order_and_in_its_context(self):
        for mode in ("prefork", "coroutine"):
            for name in ("plain", "waits"):
                with self.subTest(mode=mode, name=name):
                    worker = self.worker(mode)
                    self.assertEqual(worker.outcome(f"sample_around.{name}", ["tea"])["result"], "tea")
                    self.assertEqual(worker.outcome("sample_around.notes", [])["result"],
                                     ["outer before", "inner before", "inner after tea", "outer after tea"])
                    failed = worker.outcome(f"sample_around.{name}", ["raises"])
                    self.assertEqual((failed["outcome"], failed["error"]["group"]), ("failed", "LookupError"))
                    self.assertEqual(worker.outcome("sample_around.notes", [])["result"][2:],
                                     ["inner failure LookupError", "outer failure LookupError"])
                    self.assertEqual(worker.outcome(f"sample_around.{name}", ["again"])["outcome"], "retry")
                    self.assertEqual(worker.outcome("sample_around.notes", [])["result"][2:],
                                     ["inner failure Retry", "outer failure Retry"])

    def test_before_may_refuse_a_job_and_after_cannot_undo_it(self):
        worker = self.worker()
        refused = worker.outcome("sample_around.plain", ["refused"])
        self.assertEqual((refused["outcome"], refused["error"]["group"]), ("failed", "PermissionError"))
        self.assertEqual(worker.outcome("sample_around.plain", ["trips"])["result"], "trips")
        self.assertIn("ERROR taskvisor: middleware", worker.stderr())
        self.assertNotIn("taskvisor.jobs", worker.stderr())

    def test_limits_signals_and_exits_in_after_do_not_undo_the_job(self):
        for name in ("plain", "waits"):
            for word, status in (("exits", None), ("SIGALRM", None), ("SIGTERM", 0)):
                with self.subTest(name=name, word=word):
                    worker = self.worker()
                    done = worker.outcome(f"sample_around.{name}", [word], soft_time_limit=60)
                    self.assertEqual((done["outcome"], done.get("result")), ("complete", word), done)
                    if status is None:
                        self.assertEqual(worker.outcome(f"sample_around.{name}", ["next"])["result"], "next")
                    else:
                        self.assertEqual(worker.wait(), status)
                    self.assertNotIn("taskvisor.jobs", worker.stderr())

    def test_job_that_blocks_its_loop_has_failed_for_its_middleware_too(self):
        place = os.path.join(tempfile.mkdtemp(), "failures")
        worker = self.worker("coroutine", concurrency=2)
        worker.run("sample_around.naps", [], id="naps", time_limit=2)
        worker.run("sample_around.blocks", [place], id="blocks")
        said, done = [], {}
        while len(done) < 2:
            kind, fields = worker.receive()
            if kind == "done":
                done[fields["job"]] = fields["outcome"]
            elif kind == "log":
                said.append(fields["text"])
        self.assertEqual(done, {"naps": "snooze", "blocks": "failed"})
        # In the context of the job; one that hangs delays nobody.
        with open(place) as file:
            self.assertEqual(file.read(), "inner EventLoopBlocked blocks\nouter EventLoopBlocked blocks\n")
        self.assertEqual([line for line in said if "cleans up" in line], ["inner cleans up", "outer cleans up"])
        self.assertEqual(worker.wait(), 1)

    def test_cancel_while_after_runs_does_not_undo_the_job(self):
        worker = self.worker("coroutine")
        worker.run("sample_around.plain", ["lingers"])
        self.assertEqual(worker.receive()[0], "progress")
        worker.send("cancel", job="j1", why="time limit")
        done = worker.done()
        self.assertEqual((done["outcome"], done.get("result")), ("complete", "lingers"), done)

    def test_job_that_goes_on_past_its_limit_has_failed_for_its_middleware_too(self):
        worker = self.worker("coroutine", concurrency=2)
        worker.run("sample_around.goes_on", [])
        self.assertEqual(worker.receive()[0], "progress")
        worker.send("cancel", job="j1", why="time limit")
        self.assertEqual(worker.done()["outcome"], "canceled")
        self.assertEqual(worker.outcome("sample_around.notes", [])["result"][2:],
                         ["inner failure TimeLimitExceeded", "outer failure TimeLimitExceeded"])
        worker = self.worker()
        worker.run("sample_around.goes_on", [], time_limit=0.1)
        self.assertEqual(worker.receive()[0], "progress")
        worker.kill()
        worker.done()
        self.assertEqual(worker.wait(), 0)
        self.assertIn("inner failure TimeLimitExceeded", worker.stdout())
        self.assertNotIn("inner after", worker.stdout())

    def test_job_knows_when_it_was_put_and_asks_once(self):
        for mode in ("prefork", "coroutine"):
            for name in ("asks", "asked"):
                with self.subTest(mode=mode, name=name):
                    worker = self.worker(mode)
                    worker.run(f"sample_around.{name}", [])
                    kind, fields = worker.receive()
                    self.assertEqual((kind, fields["verb"], fields["args"]), ("call", "job", {"id": "j1"}))
                    worker.send("reply", n=fields["n"], ok={"id": "j1", "put_at_ms": 1700000000123})
                    self.assertEqual(worker.done()["result"], ["2023-11-14T22:13:20.123000+00:00"] * 2)
                    self.assertEqual(worker.seen, [])

        @job("around.Age")
        def age():
            return (datetime.now(timezone.utc) - current_job().put_at).total_seconds()

        with inline():
            self.assertLess(abs(age.put().result()), 5)

    def test_inline_runs_it_too_and_other_objects_are_refused(self):
        class Counting(Middleware):
            count = 0

            def before(self, job):
                self.count += 1

        counting = middleware(Counting())
        self.addCleanup(around._all.remove, counting)

        @job("around.Inline")
        def inlined():
            return 5

        with inline():
            self.assertEqual((inlined.put().result(), counting.count), (5, 1))
        with self.assertRaisesRegex(TypeError, "inherits Middleware, not <class"):
            middleware(Counting)

    def test_time_limit_is_a_failure_that_is_logged_and_an_order_to_end_is_none(self):
        running = mock.Mock(id="7", class_name="c", queue="q", attempt=2, scope=None)
        with self.assertLogs("taskvisor.jobs", "ERROR") as logged:
            for error in (Retry(after=1), Snooze(after=1), Interrupted("by SIGTERM"), TimeLimitExceeded("1 s"),
                          SoftTimeLimitExceeded("1 s")):
                around.fail(running, error)
        self.assertEqual([record.exc_info[0] for record in logged.records], [TimeLimitExceeded, SoftTimeLimitExceeded])
        for why, kind in (("time limit", "TimeLimitExceeded"), ("canceled by ann", "Interrupted")):
            worker = self.worker("coroutine")
            worker.run("sample_around.naps", [])
            self.assertEqual(worker.receive()[0], "progress")
            worker.send("cancel", job="j1", why=why)
            self.assertEqual(worker.done()["outcome"], "canceled")
            self.assertEqual(worker.outcome("sample_around.notes", [])["result"][2:4],
                             [f"inner failure {kind}", f"outer failure {kind}"])

    def test_log_record_has_the_exception_without_our_frames_and_the_job(self):
        running = mock.Mock(id="7", class_name="c", queue="q", attempt=2, scope=None)
        with self.assertLogs("taskvisor.jobs", "ERROR") as logged:
            try:
                raise ValueError("no")
            except ValueError as error:
                around.fail(running, error)
        record, = logged.records
        self.assertEqual(record.getMessage(), "job 7 (c) has failed")
        self.assertEqual(record.taskvisor, {"id": "7", "class": "c", "queue": "q", "attempt": 2})
        self.assertEqual(record.exc_info[2].tb_frame.f_code.co_name, self._testMethodName)


@unittest.skipIf(sys.version_info < (3, 8), "sentry-sdk of today is for newer versions of Python")
class SentryTest(unittest.TestCase):
    def events(self, mode, **options):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = ":".join([PACKAGE, HERE, rq_installed.site("2.20.0", "sentry-sdk")])
        worker = Worker(module="sample_around", mode=mode, env={"PYTHONPATH": path, "EVENTS": directory.name}, **options)
        self.addCleanup(worker.close)
        for word, how in (("fine", "complete"), ("crisp", "failed"), ("dry", "failed")):
            self.assertEqual(worker.outcome("sample_around.crumbles", [word], id=word)["outcome"], how)
        events = []
        for name in os.listdir(directory.name):
            with open(os.path.join(directory.name, name)) as file:
                events.append(json.load(file))
        return sorted(events, key=lambda event: event["extra"]["taskvisor"]["id"])

    def test_exception_of_a_job_is_an_event_with_its_job_and_its_own_breadcrumbs(self):
        for mode in ("prefork", "coroutine"):
            with self.subTest(mode=mode):
                crisp, dry = self.events(mode)
                for event, word in ((crisp, "crisp"), (dry, "dry")):
                    exception = event["exception"]["values"][-1]
                    self.assertEqual((exception["type"], exception["value"]), ("KeyError", repr(word)))
                    self.assertEqual([frame["function"] for frame in exception["stacktrace"]["frames"]], ["crumbles"])
                    self.assertEqual(event["transaction"], "sample_around.crumbles")
                    self.assertEqual(event["extra"]["taskvisor"]["id"], word)
                    crumbs = [crumb["message"] for crumb in event["breadcrumbs"]["values"]]
                    self.assertEqual(crumbs, [f"crumb of {word}"])


if __name__ == "__main__":
    unittest.main()
