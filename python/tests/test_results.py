"""Results, ends and cancels, by a real supervisor."""

import asyncio
import os
import pickle
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings

import real
import real_jobs

import taskvisor
import taskvisor.client.asking
import taskvisor.client.settings
from taskvisor import (JobCanceled, JobFailed, JobId, NoSuchJob, PutError, SupervisorError, agather, as_completed, gather,
                       put, put_many)


class Results(real.RealTest):
    def setUp(self):
        super().setUp()
        self.running = self.server()

    def test_result_and_log_of_a_job_are_read_by_its_id(self):
        id = real_jobs.add.put(1, 2)
        self.assertIsInstance(id, str)
        self.assertEqual(id.result(20), 3)
        self.assertEqual(id.wait(20), "complete")
        info = id.info()
        self.assertEqual((info.id, info.state, info.class_name, info.result, info.attempt, info.data),
                         (id, "complete", "real_jobs.add", 3, 1, {"a": 1, "b": 2}))
        same = pickle.loads(pickle.dumps(id))
        self.assertEqual((same, type(same), same.result(20)), (id, JobId, 3))

    def test_log_is_that_of_the_supervisor_that_configure_names(self):
        id = real_jobs.add.put(1, 2)
        id.wait(20)
        socket = os.path.join(os.environ["TASKVISOR_RUN_DIR"], "ctl.sock")
        self.addCleanup(setattr, taskvisor.client.settings.settings, "socket", None)
        path = f"{os.path.dirname(real.program())}:{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as elsewhere, unittest.mock.patch.dict(
                os.environ, PATH=path, TASKVISOR_RUN_DIR=elsewhere, TASKVISOR_STATE_DIR=elsewhere):
            with self.assertRaisesRegex(SupervisorError, "failed to read the output"):
                id.logs()
            taskvisor.configure(socket=socket)
            self.assertEqual(id.logs(), "adding\n")
            # Asked of the supervisor: without the program.
            with unittest.mock.patch.dict(os.environ, PATH=elsewhere):
                self.assertEqual((id.logs(tail=1, attempt=1), id.logs(stream="stderr")), ("adding\n", ""))
                with self.assertRaises(NoSuchJob):
                    JobId("nope").logs()

    def test_failed_job_raises_with_the_trace_of_its_worker(self):
        with self.assertRaisesRegex(JobFailed, "has failed: ValueError: attempt 3") as caught:
            real_jobs.fails.put().result(20)
        error = caught.exception
        self.assertEqual((error.state, error.group, error.message, error.info.attempt),
                         ("failed", "ValueError", "attempt 3", 3))
        self.assertIn('raise ValueError(f"attempt', error.trace)
        self.assertIn("ran", error.forensics)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again)), (JobFailed, str(error)))

    def test_cancel_returns_once_the_processes_have_ended(self):
        id = real_jobs.long.put()
        with self.assertRaises(TimeoutError):
            id.result(0.2)
        self.assertEqual(id.cancel(reason="enough"), "canceled")
        with self.assertRaisesRegex(JobCanceled, f"job {id} was canceled"):
            id.result()
        self.assertEqual(id.cancel(), "canceled")
        done = real_jobs.add.put(1)
        done.wait(20)
        self.assertEqual(done.cancel(), "complete")

    def test_unknown_job_is_said_to_be_unknown(self):
        nobody = JobId("no/such job")
        for ask in (nobody.result, nobody.wait, nobody.cancel, nobody.info):
            with self.assertRaisesRegex(NoSuchJob, "no job has the id 'no/such job'"):
                ask()
        with self.assertRaises(NoSuchJob):
            gather([real_jobs.add.put(1), nobody])

    def test_results_of_many_jobs_come_in_order_or_as_they_end(self):
        ids = put_many(real_jobs.add.prepare(n, n) for n in range(300))
        self.assertEqual(gather(ids, 60), [2 * n for n in range(300)])
        never = real_jobs.add.options(delay=600).put(0)
        seen = []
        with self.assertRaises(TimeoutError):
            # Only a hang lasts for so long: 300 questions may take some seconds on a busy machine.
            for ended in as_completed([never, *ids], 60):
                seen.append(ended)
                self.assertEqual(ended.result(), 2 * ids.index(ended))
                if len(seen) == len(ids):
                    break
            else:
                self.fail("it has ended")
            gather([never], 0.1)
        self.assertEqual(sorted(seen), sorted(ids))
        bad = real_jobs.fails_for_good.put()
        self.assertEqual(list(map(type, gather([ids[0], bad, ids[0]], return_exceptions=True))), [int, JobFailed, int])

    def test_coroutines_await_results(self):
        async def story():
            ids = [await real_jobs.add.aput(n) for n in range(10)]
            self.assertEqual(await agather(ids, 20), list(range(1, 11)))
            self.assertEqual(sorted([ended.result() async for ended in as_completed(ids)]), list(range(1, 11)))
            self.assertEqual(await ids[3].aresult(), 4)
            with self.assertRaises(JobFailed):
                await (await real_jobs.fails_for_good.aput()).aresult(20)
            late = await real_jobs.long.aput()
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)

            ticking = asyncio.ensure_future(tick())
            with self.assertRaises((TimeoutError, asyncio.TimeoutError)):
                await late.aresult(0.3)
            ticking.cancel()
            self.assertGreater(ticks, 10)
            late.cancel(wait=False)
            self.assertEqual(await late.awaited(20), "canceled")

        asyncio.run(story())

    def test_job_that_waits_for_another_is_refused(self):
        with self.assertRaisesRegex(JobFailed, "would hold its slot while it waits"):
            real_jobs.waits_for_another.options(retries=0).put().result(20)


class Away(real.RealTest):
    def test_wait_goes_on_over_a_stop_and_a_start(self):
        server = self.server(broker=None)
        id = real_jobs.add.options(delay=1).put(1, 2)
        found = []
        threads = [threading.Thread(target=lambda: found.append(id.result(60))),
                   threading.Thread(target=lambda: found.append(asyncio.run(id.aresult(60))))]
        for thread in threads:
            thread.start()
        server.restart()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [3, 3])

    def test_puts_of_threads_survive_stops_and_starts_each_once(self):
        server = self.server(broker=None, workers=1)
        stop, put_ids, failed = threading.Event(), [], []

        def putter(name):
            n = 0
            while not stop.is_set():
                n += 1
                try:
                    # Every third has an id of its own, which exists once.
                    options = {"id": f"{name}-{n}"} if n % 3 == 0 else {}
                    put_ids.append(put("kept", "Nobody", n, **options))
                except PutError as error:
                    failed.append(error)

        threads = [threading.Thread(target=putter, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for _ in range(4):
            before = len(put_ids)
            while len(put_ids) < before + 40:
                time.sleep(0.01)
            server.restart()
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        kept = taskvisor.client.asking.ask("GET", "/v1/jobs?queue=kept&limit=0")
        self.assertEqual(sorted(job["id"] for job in kept), sorted(put_ids))

    def test_put_while_it_is_stopped_reaches_the_store_that_it_used(self):
        server = self.server(broker=None)
        server._end(15)
        path = f"{os.path.dirname(real.program())}:{os.environ['PATH']}"
        with unittest.mock.patch.dict(os.environ, PATH=path, HOME=server.directory):
            del os.environ["TASKVISOR_STATE_DIR"]
            id = real_jobs.add.put(1, 2)
        server._launch()
        self.assertEqual(id.result(20), 3)

    def test_absent_supervisor_is_named_at_once_and_one_that_stays_away_after_a_while(self):
        server = self.server(broker=None)
        id = real_jobs.add.options(delay=600).put(1)
        before = taskvisor.client.settings.settings.patience
        self.addCleanup(taskvisor.configure, patience=before)
        taskvisor.configure(patience=0.3)
        server._end(15)
        for ask in (id.result, id.info, lambda: asyncio.run(id.aresult())):
            with self.assertRaisesRegex(SupervisorError, "nobody listens on .*ctl.sock .*; start the supervisor"):
                ask()
        with self.assertRaises(TimeoutError):
            taskvisor.configure(patience=60)
            id.result(0.2)
        server.stop()
        started = time.monotonic()
        with self.assertRaisesRegex(SupervisorError, "nobody listens on"), unittest.mock.patch.dict(
                "os.environ", {"TASKVISOR_RUN_DIR": "/nowhere/at/all"}):
            id.result()
        self.assertLess(time.monotonic() - started, 5)


if __name__ == "__main__":
    with warnings.catch_warnings():
        unittest.main()
