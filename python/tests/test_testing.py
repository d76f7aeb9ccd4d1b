"""`taskvisor.testing`: what runs inline ends as by real workers."""

import asyncio
import os
import threading
import unittest
from unittest import mock

import real_jobs
import support  # noqa: F401

from taskvisor import JobFailed, NewJob, NoSuchJob, PutError, as_completed, gather, put, put_many
from taskvisor.testing import inline, recording


class Inline(unittest.TestCase):
    def test_output_is_not_looked_for_at_a_supervisor_that_knows_nothing_of_the_test(self):
        for mode in (inline, recording):
            with self.subTest(mode=mode), mode(), mock.patch("taskvisor.client.asking.once") as asked:
                with self.assertRaisesRegex(NotImplementedError, "use taskvisor.testing.Server"):
                    real_jobs.add.put(1).logs()
                asked.assert_not_called()

    def test_puts_of_jobs_run_after_the_job_that_put_them(self):
        with inline() as jobs:
            id = real_jobs.puts.put(3)
            self.assertEqual(id.result(), "child-3")
            jobs.assert_put(real_jobs.add, 3, b=3)
            self.assertEqual([job.id for job in jobs.of(real_jobs.add)], ["child-3"])
            self.assertEqual(id.info().progress, {"fraction": 0.5, "message": "half"})

    def test_jobs_run_by_priority_and_after_what_they_depend_on(self):
        order = []
        with inline(), mock.patch.object(real_jobs.add, "function", lambda a, b=1: order.append(a)):
            put_many([real_jobs.add.options(id="c", depends=["b"], priority=9).prepare(3),
                      real_jobs.add.prepare(1), real_jobs.add.options(id="b", priority=5).prepare(2)][::-1])
            self.assertEqual(order, [2, 3, 1])
            bad = real_jobs.fails_for_good.put()
            with self.assertRaisesRegex(TimeoutError, "is depends, .*: what it depends on is not complete"):
                real_jobs.add.options(depends=[bad]).put(9).result()
        self.assertEqual(order, [2, 3, 1])

    def test_ids_are_refused_or_left_as_the_supervisor_does(self):
        with inline() as jobs:
            first = real_jobs.add.options(id="mine").put(1)
            with self.assertRaisesRegex(PutError, "the job 'mine' exists already"):
                put_many([real_jobs.add.prepare(5), NewJob("q", "c", id="mine")])
            self.assertEqual(real_jobs.add.options(id="mine", exists="skip").put(2).result(), 2)
            with self.assertRaisesRegex(PutError, "there is no job 'nobody'"):
                real_jobs.add.options(depends=["nobody"]).put(1)
            self.assertEqual([job.id for job in jobs.jobs], [first])
            with self.assertRaises(NoSuchJob):
                gather(["nobody"])

    def test_failure_is_raised_by_the_put_if_wanted_with_its_cause(self):
        with inline(raise_failures=True), self.assertRaises(JobFailed) as caught:
            real_jobs.fails_for_good.put()
        self.assertIsInstance(caught.exception.__cause__, real_jobs.Fail)

    def test_keyboard_interrupt_is_no_end_of_a_job(self):
        def stop(a, b=1):
            raise KeyboardInterrupt

        with inline(), mock.patch.object(real_jobs.add, "function", stop), self.assertRaises(KeyboardInterrupt):
            real_jobs.add.put(1)
        with inline():
            self.assertEqual(real_jobs.add.put(1).result(), 2)

    def test_unknown_class_waits_and_says_so(self):
        with inline() as jobs:
            id = put("images", "Thumbnail", {"path": "/a"})
            with self.assertRaisesRegex(TimeoutError, "no module that is imported here has the class 'Thumbnail'"):
                id.result()
            self.assertEqual(jobs.jobs[0].state, "waiting")

    def test_coroutines_and_threads_put_and_wait(self):
        async def story():
            id = await real_jobs.coroutine.aput(5)
            self.assertEqual(await id.aresult(), 5)
            self.assertEqual([ended.result() async for ended in as_completed([id])], [5])
            self.assertEqual(real_jobs.coroutine.put(6).result(), 6)

        with inline():
            asyncio.run(story())
            found = []
            threads = [threading.Thread(target=lambda n=n: found.append(real_jobs.add.put(n).result()))
                       for n in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(found), list(range(1, 21)))


class Recorded(unittest.TestCase):
    def test_nothing_runs_and_what_was_put_is_told(self):
        with recording() as jobs:
            jobs.assert_nothing_put()
            id = real_jobs.fails.options(delay=5).put()
            real_jobs.add.put(1)
            with self.assertRaisesRegex(TimeoutError, "is delayed, .*: puts are only recorded"):
                id.result()
            self.assertEqual(jobs.assert_put(real_jobs.add, 1).class_name, "real_jobs.add")
            with self.assertRaisesRegex(AssertionError, r'was not put with {"a": 2}; it was put\n  {"a": 1}'):
                jobs.assert_put(real_jobs.add, 2)
            with self.assertRaisesRegex(AssertionError, "jobs were put: <JobInfo"):
                jobs.assert_nothing_put()
            self.assertEqual((id.cancel(), id.info().state), ("canceled", "canceled"))
            with self.assertRaisesRegex(TypeError, "are not JSON"):
                real_jobs.add.put(object())

    def test_stand_ins_are_in_use_only_within(self):
        with recording() as outer:
            with inline() as inner:
                real_jobs.add.put(1)
            real_jobs.add.put(2)
            self.assertEqual((len(inner.jobs), len(outer.jobs)), (1, 1))
        with mock.patch("taskvisor.client.outside.put", return_value=["7"]) as outside:
            real_jobs.add.put(3)
        outside.assert_called_once()


class UnderPytest(unittest.TestCase):
    def test_put_into_the_default_directories_is_refused(self):
        nothing = {"PYTEST_CURRENT_TEST": "x"}
        with mock.patch.dict(os.environ, nothing, clear=True), \
                self.assertRaisesRegex(PutError, "this is a test under pytest, .* use the fixture taskvisor_inline"):
            real_jobs.add.put(1)
        with mock.patch.dict(os.environ, {**nothing, "TASKVISOR_RUN_DIR": "/nowhere"}, clear=True), \
                self.assertRaisesRegex(PutError, "nobody listens on /nowhere/ctl.sock"):
            real_jobs.add.put(1)


if __name__ == "__main__":
    unittest.main()
