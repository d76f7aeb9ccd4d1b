"""Waits for ends and puts, where a supervisor in this process decides how it answers."""

import asyncio
import json
import os
import re
import socket
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

import support

from taskvisor import JobId, ResultNotKept, SupervisorError, agather, aput, as_completed, configure, gather, put
from taskvisor.client import endpoint, threads
from taskvisor.client.settings import settings

HEAD = b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"


class Supervisor:
    """Answers each request by a function of its method, path and body, which gives a status and pieces of text."""

    def __init__(self, answer, backlog=64):
        self.directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.directory.name, "ctl.sock")
        self.answer = answer
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(backlog)
        self.environment = mock.patch.dict(os.environ, TASKVISOR_SOCKET=self.path)

    def __enter__(self):
        self.environment.start()
        # A supervisor that has run there: puts wait for it.
        open(os.path.join(self.directory.name, "lock"), "w").close()
        return self

    def __exit__(self, *_):
        self.environment.stop()
        # It wakes the thread that accepts.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.directory.cleanup()

    def start(self):
        """Accepts from now on."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as file:
            first = file.readline().split()
            if not first:
                return
            length = 0
            for line in iter(file.readline, b"\r\n"):
                found = re.match(rb"(?i)content-length: *(\d+)", line)
                length = int(found.group(1)) if found else length
            body = file.read(length)
            status, pieces = self.answer(first[0].decode(), first[1].decode(), json.loads(body) if body else None)
            try:
                connection.sendall(HEAD % status)
                for piece in pieces:
                    connection.sendall(piece.encode())
            except OSError:
                pass


def end(job, **fields):
    """A line of an answer of `POST /v1/wait`."""
    return json.dumps({"job": job, "state": "complete", **fields}, separators=(",", ":")) + "\n"


def ends(method, path, body):
    """Says that all have ended."""
    return 200, [end(job, record={"id": job, "state": "complete", "result": job}) for job in body["jobs"]]


class OwnThreads(unittest.TestCase):
    def test_puts_that_wait_leave_the_threads_of_the_loop_to_others(self):
        go_on = threading.Event()

        def answer(method, path, body):
            go_on.wait(20)
            return 200, [json.dumps({"ids": ["7"]})]

        async def story():
            puts = [asyncio.ensure_future(aput("q", "c")) for _ in range(100)]
            await asyncio.sleep(0.1)
            loop = asyncio.get_running_loop()
            self.assertEqual(await asyncio.wait_for(loop.run_in_executor(None, int, "5"), 5), 5)
            go_on.set()
            self.assertEqual(set(await asyncio.gather(*puts)), {"7"})

        with Supervisor(answer) as supervisor:
            supervisor.start()
            self.addCleanup(go_on.set)
            asyncio.run(story())

    def test_forked_process_has_threads_of_its_own(self):
        asyncio.run(threads.in_thread(int, "5"))
        with warnings.catch_warnings():
            # Python 3.12 warns of a fork beside threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                os._exit(asyncio.run(asyncio.wait_for(threads.in_thread(int, "5"), 5)))
            finally:
                os._exit(1)
        self.assertEqual(support.wait_for(pid), 5)


class NoRecord(unittest.TestCase):
    """The end comes without the record of the job."""

    def ask_all(self, answer):
        """What each way to a result finds: a value or an exception."""
        async def completed():
            return [await ended.aresult(20) async for ended in as_completed(["7"])]

        ways = [lambda: JobId("7").result(20), lambda: asyncio.run(JobId("7").aresult(20)), lambda: gather(["7"])[0],
                lambda: asyncio.run(agather(["7"]))[0], lambda: [one.result(20) for one in as_completed(["7"])][0],
                lambda: asyncio.run(completed())[0], lambda: gather(["7"], return_exceptions=True)[0]]
        found = []
        with Supervisor(lambda *asked: (200, [end("7")]) if asked[1] == "/v1/wait" else answer(*asked)) as supervisor:
            supervisor.start()
            for way in ways:
                try:
                    found.append(way())
                except Exception as error:
                    found.append(error)
        return found

    def test_result_is_asked_for_once_more(self):
        record = json.dumps({"id": "7", "state": "complete", "result": 5})
        self.assertEqual(self.ask_all(lambda method, path, body: (200, [record])), [5] * 7)

    def test_record_that_is_gone_is_no_result(self):
        for status, answer in [(404, {"error": "no job has the id '7'"}), (200, {"id": "7", "state": "waiting"})]:
            for found in self.ask_all(lambda method, path, body: (status, [json.dumps(answer)])):
                self.assertIsInstance(found, ResultNotKept)
                self.assertRegex(str(found), "job 7 .* is gone")

    def test_broker_that_stays_away_is_an_error_of_the_supervisor(self):
        before = settings.patience
        self.addCleanup(configure, patience=before)
        configure(patience=0.2)
        for found in self.ask_all(lambda method, path, body: (503, [json.dumps({"error": "the broker is away"})])):
            self.assertIsInstance(found, SupervisorError)
            self.assertIn("the broker is away", str(found))


class ManyJobs(unittest.TestCase):
    def setUp(self):
        self.sizes = []

    def waits(self, most, answer=ends):
        """A supervisor that takes so many jobs in a request."""
        def limited(method, path, body):
            self.sizes.append(len(body["jobs"]))
            if self.sizes[-1] > most:
                return 400, [json.dumps({"error": f"cannot wait for {self.sizes[-1]} jobs at a time: over redis each is "
                                                  f"asked for, and {most} are the most"})]
            return answer(method, path, body)

        supervisor = Supervisor(limited)
        self.addCleanup(supervisor.__exit__)
        supervisor.__enter__()
        supervisor.start()

    def test_more_than_one_request_holds_are_asked_for_by_several(self):
        self.waits(100_000)
        jobs = [str(number) for number in range(100_001)]
        self.assertEqual(gather(jobs), jobs)
        self.assertEqual(sorted(self.sizes), [1, 100_000])

    def test_supervisor_that_takes_fewer_at_a_time_gets_fewer(self):
        self.waits(1000)
        jobs = [str(number) for number in range(20_500)]
        for all_of in (gather, lambda jobs: asyncio.run(agather(jobs))):
            del self.sizes[:]
            self.assertEqual(all_of(jobs), jobs)
            self.assertEqual(self.sizes[0], 20_500)
            self.assertEqual(sorted(self.sizes[1:]), [500] + [1000] * 20)

    def test_job_that_does_not_end_keeps_none_of_another_batch_back(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def slow(method, path, body):
            def pieces():
                for job in body["jobs"]:
                    if job == "0":
                        yield "\n"
                        over.wait(20)
                    yield end(job)
            return 200, pieces()

        self.waits(2, slow)
        jobs = [str(number) for number in range(6)]

        async def first_four():
            return [(await found.__anext__()) for found in [as_completed(jobs).__aiter__()] for _ in range(4)]

        found = iter(as_completed(jobs))
        self.assertEqual(sorted(next(found) for _ in range(4)), ["2", "3", "4", "5"])
        self.assertEqual(sorted(asyncio.run(first_four())), ["2", "3", "4", "5"])
        over.set()
        self.assertEqual(sorted(found), ["0", "1"])

    def test_batch_that_finds_no_place_is_asked_for_after_the_others(self):
        def one_place(method, path, body):
            if len(self.sizes) in (3, 4):
                return 503, [json.dumps({"error": "64 clients wait here already"})]
            return ends(method, path, body)

        self.waits(2, one_place)
        jobs = [str(number) for number in range(6)]
        self.assertEqual(gather(jobs, 20), jobs)


class FullBacklog(unittest.TestCase):
    def fill(self, supervisor):
        """Takes all places of those that wait to be accepted."""
        while True:
            waits = socket.socket(socket.AF_UNIX)
            self.addCleanup(waits.close)
            waits.setblocking(False)
            try:
                waits.connect(supervisor.path)
            except BlockingIOError:
                return

    def test_who_finds_no_room_waits_for_it(self):
        def answer(method, path, body):
            return ends(method, path, body) if path == "/v1/wait" else (200, [json.dumps({"ids": ["7"]})])

        for ask, found in [(lambda: put("q", "c"), "7"), (lambda: JobId("7").result(20), "7"),
                           (lambda: asyncio.run(JobId("7").aresult(20)), "7")]:
            with Supervisor(answer, backlog=0) as supervisor:
                self.fill(supervisor)
                threading.Timer(0.2, supervisor.start).start()
                self.assertEqual(ask(), found)

    def test_who_never_finds_room_is_told_so_in_time(self):
        with Supervisor(ends, backlog=0) as supervisor:
            self.fill(supervisor)
            for wait in (lambda: JobId("7").result(0.2), lambda: asyncio.run(JobId("7").aresult(0.2))):
                started = time.monotonic()
                with self.assertRaises(TimeoutError):
                    wait()
                self.assertLess(time.monotonic() - started, 5)
            with self.assertRaisesRegex(endpoint.Busy, "takes no more connections"):
                endpoint.Unix(supervisor.path).connect(0.1)


class WithoutLoop(unittest.TestCase):
    def test_coroutine_in_another_kind_of_loop_says_what_to_do_there(self):
        from taskvisor import AsyncClient, JobId, aput

        for coroutine in (aput("q", "c"), JobId("x").aresult(), AsyncClient("http://127.0.0.1:1", token="t").job("x")):
            with self.subTest(coroutine=coroutine), mock.patch.dict(os.environ, TASKVISOR_RUN_DIR="/nowhere"), \
                    self.assertRaisesRegex(RuntimeError, "no event loop of asyncio runs here, .* trio.to_thread.run_sync"):
                # As trio steps it.
                coroutine.send(None)


if __name__ == "__main__":
    support.unittest.main()
