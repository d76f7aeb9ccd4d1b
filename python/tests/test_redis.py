"""`taskvisor.redis`: jobs straight in a Redis are those of the program, and end by its workers."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from unittest import mock

import real
import real_jobs
import rq_installed
import support

#: The oldest Python has its last version; the newest is tested beside it.
REDIS_PY = "8.1.0" if sys.version_info >= (3, 10) else "5.0.8"
#: What only a supervisor shows of a job.
NOT_SHOWN = {"forensics", "exec"}


class RedisTest(real.RealTest):
    maxDiff = None

    def setUp(self):
        super().setUp()
        if shutil.which("redis-server") is None:
            self.skipTest("no redis-server: apt-get install redis-server")
        site = rq_installed.site(REDIS_PY, "redis")
        if site not in sys.path:
            sys.path.append(site)
        from taskvisor.redis import RedisClient

        self.redis = rq_installed.Redis()
        self.addCleanup(self.redis.end)
        self.client = RedisClient(self.redis.url)
        self.addCleanup(self.client.place.link.redis.close)

    def program(self, *arguments, fails=False, said=False, broker=None):
        """What the program says of this Redis: its stdout, or what it `said` beside, as when it `fails`."""
        environment = {**os.environ, "TASKVISOR_BROKER": broker or self.redis.url, "TASKVISOR_STATE_DIR": self.redis.directory,
                       "TASKVISOR_RUN_DIR": self.redis.directory}
        done = subprocess.run([real.program(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment, universal_newlines=True)
        self.assertEqual(done.returncode != 0, fails, done.stderr)
        return done.stderr if fails or said else done.stdout

    def record(self, job):
        """The record as the program shows it, without what only a supervisor shows."""
        record = json.loads(self.program("job", "show", "--json", job))
        for entry in record.get("history", ()):
            entry.get("attempt", {}).pop("forensics", None)
        return {name: value for name, value in record.items() if name not in NOT_SHOWN}


class Alike(RedisTest):
    def test_a_put_is_the_same_as_that_of_the_program(self):
        from taskvisor import NewJob

        cases = {
            "plain": ({}, []),
            "all": ({"delay": 3600, "priority": -4, "tags": ["x", "\u00e4"], "retries": 3, "time_limit": 2.5,
                     "expires": 7200.0},
                    ["--delay", "1h", "--expires", "2h", "--priority=-4", "--tag", "x", "--tag", "\u00e4", "--retries", "3",
                     "--time-limit", "2500ms"]),
            "none": ({"retries": 0, "exists": "refuse"}, ["--retries", "0"]),
            "skip": ({"exists": "skip"}, ["--exists", "skip"]),
        }
        for name, (options, words) in cases.items():
            with self.subTest(case=name):
                self.client.put_many([NewJob("q", "c", {"a": [1, "\u00e4"]}, id=f"{name}-ours", **options)])
                self.program("put", "q", "c", '{"a":[1,"\u00e4"]}', "--jid", f"{name}-theirs", *words)
                ours, theirs = (self.client.place.link.redis.hgetall(f"ql:j:{name}-{whose}") for whose in ("ours", "theirs"))
                for job in ours, theirs:
                    for differs in (b"jid", b"time", b"order", b"put_at", b"due", b"token"):
                        job.pop(differs, None)
                self.assertEqual(ours, theirs)
        self.client.put("q", "c", None, id="needs", depends=["plain-ours"])
        self.program("put", "q", "c", "null", "--jid", "theirs", "--depends", "plain-ours")
        self.assertEqual(self.record("needs")["depends"], self.record("theirs")["depends"])

    def test_the_script_is_that_of_the_program(self):
        self.program("put", "q", "c", "1")
        self.assertEqual(self.client.place.link.redis.script_exists(self.client.place.link._sha), [True])
        from taskvisor.redis.link import PARTS

        source = os.path.join(support.PACKAGE, "..", "src", "brokers", "qless", "script.rs")
        if os.path.exists(source):
            with open(source, encoding="utf-8") as file:
                listed = re.search(r"script!\((.*?)\)", file.read(), re.S).group(1)
            self.assertEqual(tuple(re.findall(r'"([\w/]+)"', listed)), PARTS)

    def test_records_are_those_of_the_program(self):
        from taskvisor import SupervisorError

        server = self.server(broker=self.redis.url)
        client, put = self.client, self.client.put
        done = put("default", "real_jobs.puts", [3], tags=["x"], retries=2, time_limit=60)
        failed = put("default", "real_jobs.fails_for_good", id="failed")
        text = put("default", "real_jobs.add", {"a": "\u00e4\u20ac", "b": "x"})
        again, long = put("default", "real_jobs.fails", retries=2), put("default", "real_jobs.long")
        for id in (done, failed, text, again):
            id.wait(30)
        self.program("job", "retry", str(again))
        again.wait(30)
        while long.info().state != "running":
            pass
        program = "exec-1"
        self.program("put", "--jid", program, "--queue", "nobody", "--", "true")
        delayed, waiting = put("default", "c", [1.5, None], delay=3600), put("nobody", "c", id="a/b c")
        needs = put("nobody", "c", depends=[waiting, delayed], priority=3)
        canceled = put("nobody", "c")
        canceled.cancel(reason="no")
        self.program("put", "nobody", "c", "--raw", "no json", "--jid", "raw")
        for id in (done, failed, text, again, long, program, delayed, waiting, needs, canceled, "raw"):
            with self.subTest(job=id):
                ours = client.place.record(str(id))
                self.assertEqual(set(ours.pop("lacks")), NOT_SHOWN)
                self.assertEqual(ours, self.record(id))
        self.assertEqual([entry["kind"] for entry in again.info().history], ["attempt"] * 3 + ["retried"] + ["attempt"] * 3)
        with self.assertRaisesRegex(SupervisorError, "straight from a Redis: ask a supervisor"):
            done.info().forensics
        long.cancel()
        self.assertEqual((client.job(done).result, client.job(failed).failure["group"]), ("child-3", "Fail"))
        server.stop()

    def test_refusals_say_what_those_of_the_program_say(self):
        from taskvisor import NewJob, NoSuchJob, PutError, SupervisorError

        self.client.put("q", "c", id="there")
        for jobs, words in (
            ([NewJob("q", "c", id="there")], "exists"),
            ([NewJob("q", "c", depends=["nobody"])], "cannot depend on 'nobody'"),
            ([NewJob("q", "c", id="a", depends=["b"]), NewJob("q", "c", id="b", depends=["a"])], "in a circle"),
            ([NewJob("q", "c", id="a\n")], "control characters"),
            ([NewJob("q", "c", "x" * 12_600_000)], "cannot be sent to a worker"),
            ([NewJob("q", "exec")], "for programs"),
            ([NewJob("q", "c", tags=["x"] * 101)], "101 tags"),
            ([NewJob("q", "c")] * 50_001, "too many jobs"),
        ):
            with self.subTest(words=words), self.assertRaisesRegex(PutError, words):
                self.client.put_many(jobs)
        self.assertIn("there", self.program("put", "q", "c", "1", "--jid", "there", fails=True))
        self.assertEqual(self.client.place.link.redis.zcard("ql:taskvisor:jobs"), 1)
        self.client.put("q", "c", id="there", exists="skip")
        for ask in (self.client.job, lambda id: self.client.id(id).result(), lambda id: self.client.id(id).cancel()):
            with self.assertRaises(NoSuchJob):
                ask("nobody")
        self.client.put("q", "c", id="after", depends=["there"])
        with self.assertRaisesRegex(SupervisorError, "others depend on it: after"):
            self.client.id("there").cancel()
        said = self.client.cancel(["there"], dependents=True)
        self.assertEqual([(one["job"], one["state"]) for one in said], [("there", "canceled"), ("after", "canceled")])


class Chain(unittest.TestCase):
    def test_long_chain_is_looked_through_in_one_go(self):
        from taskvisor.redis.place import _refuse_circle

        # Each job looked at once: 10,000 of them took 7 s when each round looked at all.
        needs = {str(n): [str(n + 1)] for n in range(10_000)}
        began = time.process_time()
        _refuse_circle(needs, "x")
        self.assertLess(time.process_time() - began, 2)


class InJob(RedisTest):
    def test_questions_of_a_job_go_to_its_own_supervisor(self):
        from taskvisor.client import running_job, stand_in

        self.addCleanup(setattr, stand_in.current, "default", None)
        self.client.use()
        self.assertIs(stand_in.place(), self.client.place)
        job = running_job.Job({"id": "7", "fence": 1, "class": "c"}, mock.Mock())
        with mock.patch.object(running_job.of_process, "job", job):
            self.assertIsNone(stand_in.place())


class Sentinels(RedisTest):
    def test_addresses_of_other_brokers_are_refused_and_all_of_this_one_are_taken(self):
        from taskvisor.redis import RedisClient

        for url in ("rq+redis://h/0", "reliable+redis://h/0", "sqs://eu-west-1", "redis-sentinel://h/m", "h:6379", ""):
            with self.subTest(url=url), self.assertRaisesRegex(ValueError, "cannot be put straight into .* ask a supervisor"):
                RedisClient(url)
        for url in ("valkey://h/0", "valkeys://h/0", "rediss://h/0"):
            RedisClient(url)
        RedisClient(self.redis.url.replace("unix://", "redis+unix://")).put("q", "c", id="by-unix")
        self.assertEqual(self.record("by-unix")["queue"], "q")

    def test_addresses_are_read_as_the_supervisor_reads_them(self):
        from taskvisor.protocol import redis_address, redis_tls

        def asked(hosts):
            made = redis_address.by_sentinel(f"redis+sentinel://u:p@{hosts}/m/2", {"socket_timeout": 5.0})
            sentinels = made.connection_pool.sentinel_manager.sentinels
            return [sentinel.connection_pool.connection_kwargs for sentinel in sentinels]

        found = asked("[::1]:5,[fe80::1],::2,h:6,h")
        self.assertEqual([(one["host"], one["port"]) for one in found],
                         [("::1", 5), ("fe80::1", 26379), ("::2", 26379), ("h", 6), ("h", 26379)])
        # A stopped sentinel keeps nobody for ever.
        self.assertEqual({one["socket_timeout"] for one in found}, {5.0})
        url = "rediss+sentinel://:p%2Bw@h/m?sentinel_pass=s+%2F&sentinel_tls=yes&ca=/a+b.pem"
        made = redis_address.by_sentinel(redis_address.plain(url), redis_tls.options(url))
        asked_of = made.connection_pool.sentinel_manager.sentinels[0].connection_pool.connection_kwargs
        self.assertEqual((asked_of["password"], asked_of["ssl_ca_certs"], asked_of["ssl_check_hostname"]), ("s+/", "/a+b.pem", True))
        server = made.connection_pool.connection_kwargs
        self.assertEqual((server["password"], server["ssl_ca_certs"]), ("p+w", "/a+b.pem"))
        for wrong in ("[::1", "[::1]x", "a:b:c", "h:x"):
            with self.subTest(host=wrong), self.assertRaisesRegex(ValueError, "HOST:PORT"):
                asked(wrong)


class Tls(unittest.TestCase):
    def setUp(self):
        site = rq_installed.site(REDIS_PY, "redis")
        if site not in sys.path:
            sys.path.append(site)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        # As a URL would decode it once, or twice.
        self.place = os.path.join(directory.name, "a%2520b+c")
        for name in ("ours", "other"):
            subprocess.check_call(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                 "subjectAltName=DNS:localhost", "-keyout", self.place + name + ".key", "-out", self.place + name],
                stderr=subprocess.DEVNULL)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.place + "ours", self.place + "ours.key")
        server = socket.socket()
        self.addCleanup(server.close)
        server.bind(("127.0.0.1", 0))
        server.listen()
        self.port = server.getsockname()[1]

        def shake():
            while True:
                try:
                    taken, _ = server.accept()
                    context.wrap_socket(taken, server_side=True).close()
                except OSError as error:
                    if not isinstance(error, ssl.SSLError):
                        return
        threading.Thread(target=shake, daemon=True).start()

    def test_ca_of_the_url_is_the_only_one_whatever_its_name(self):
        from taskvisor.redis import RedisClient
        from taskvisor.rq.connection import connection

        def shake(ca):
            url = f"rediss://localhost:{self.port}/0?ca={self.place}{ca}"
            for redis in (RedisClient(url).place.link.redis, connection("rq+" + url, None)):
                pool = redis.connection_pool
                pool.connection_class(**pool.connection_kwargs)._connect().close()

        with mock.patch.dict(os.environ, SSL_CERT_FILE=self.place + "ours"):
            shake("ours")
            with self.assertRaises(ssl.SSLCertVerificationError):
                shake("other")


class Forked(RedisTest):
    def in_child(self, act):
        """Whether a process that is forked now does that within a while."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                # A lock that nobody will give back: SIGALRM ends the process.
                signal.alarm(5)
                act()
                os._exit(0)
            finally:
                os._exit(1)
        return os.waitpid(pid, 0)[1] == 0

    def test_fork_while_a_thread_asks_for_the_time_leaves_the_child_free(self):
        link = self.client.place.link
        asked, forked = threading.Event(), threading.Event()
        time_of_server, parent = link.redis.time, os.getpid()

        def slow():
            if os.getpid() == parent:
                asked.set()
                forked.wait(20)
            return time_of_server()

        with mock.patch.object(link.redis, "time", slow):
            thread = threading.Thread(target=link.now)
            thread.start()
            self.assertTrue(asked.wait(20))
            self.assertTrue(self.in_child(link.now))
            forked.set()
            thread.join()

    def test_fork_while_a_thread_is_told_of_an_end_leaves_the_child_free(self):
        ear = self.client.place._ear
        with ear._lock:
            self.assertTrue(self.in_child(lambda: ear.leave(ear.watch(["x"], print))))

    def test_time_goes_on_while_the_machine_is_suspended(self):
        from taskvisor.redis import link

        if not hasattr(time, "CLOCK_BOOTTIME"):
            self.skipTest("this system has no clock that goes on in a suspend")
        with mock.patch.object(link.time, "monotonic", lambda: 5.0):
            before = self.client.place.link.now()
            self.assertGreater(self.client.place.link.now(), before)


class Stopped(RedisTest):
    """A server that takes connections and answers nothing."""

    def setUp(self):
        super().setUp()
        from taskvisor import configure
        from taskvisor.client.settings import settings
        from taskvisor.redis import RedisClient, connection

        self.addCleanup(setattr, settings, "patience", settings.patience)
        configure(patience=0)
        with mock.patch.object(connection, "ANSWER_SECONDS", 1.0):
            self.client = RedisClient(self.redis.url)
        self.addCleanup(self.client.place.link.redis.close)

    def stop(self):
        """Stops it until the end of the test."""
        self.redis._process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.redis._process.send_signal, signal.SIGCONT)

    def test_put_without_an_answer_says_that_the_jobs_may_be_queued(self):
        from taskvisor import PutError

        self.client.put("q", "c", id="before")
        self.stop()
        with self.assertRaisesRegex(PutError, "they may be queued or not$"):
            self.client.put("q", "c", id="sent")
        # Now there is no connection any more: nothing is sent.
        with self.assertRaises(PutError) as caught:
            self.client.put("q", "c", id="unsent")
        self.assertNotIn("may be queued", str(caught.exception))
        self.redis._process.send_signal(signal.SIGCONT)
        self.assertIsNotNone(self.client.place.looked_at(["sent"])["sent"][0])
        self.assertIsNone(self.client.place.looked_at(["unsent"])["unsent"][0])

    def test_time_of_the_caller_bounds_a_wait_for_the_server(self):
        from taskvisor import configure
        from taskvisor.redis import RedisClient

        configure(patience=60)
        client = RedisClient(self.redis.url)
        self.addCleanup(client.place.link.redis.close)
        id = client.put("q", "c")
        asks = (lambda: id.result(timeout=0.3), lambda: id.wait(timeout=0.3), lambda: asyncio.run(self.awaited(id)),
                lambda: id.cancel(timeout=0.3))
        self.stop()
        for ask in asks:
            began = time.monotonic()
            with self.assertRaises(TimeoutError):
                ask()
            self.assertLess(time.monotonic() - began, 3)

    def test_server_that_takes_connections_and_is_silent_keeps_no_put(self):
        from taskvisor import PutError
        from taskvisor.redis import RedisClient, connection

        silent = socket.socket()
        self.addCleanup(silent.close)
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        said = []

        def put(scheme):
            # By TCP and TLS redis-py keeps its timeouts elsewhere than by a unix socket.
            with mock.patch.object(connection, "ANSWER_SECONDS", 0.3):
                client = RedisClient(f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/0")
            try:
                client.put("q", "c")
            except PutError as error:
                said.append(str(error))

        for scheme in ("redis", "rediss"):
            putting = threading.Thread(target=put, args=(scheme,), daemon=True)
            putting.start()
            putting.join(10)
            self.assertFalse(putting.is_alive(), scheme)
        self.assertIn("it was away for 0 s", said[1], said)

    async def awaited(self, id):
        # Its TimeoutError is that of asyncio where it is another one.
        try:
            await id.aresult(0.3)
        except asyncio.TimeoutError:
            raise TimeoutError from None


@support.some_pythons
class Run(RedisTest):
    def setUp(self):
        super().setUp()
        self.running = self.server(broker=self.redis.url)

    def test_jobs_run_and_their_ends_are_heard(self):
        from taskvisor import JobFailed, as_completed, gather

        id = self.client.put("default", "real_jobs.add", [1, 2])
        self.assertEqual((id.result(30), id.wait(), id.info().state), (3, "complete", "complete"))
        with self.assertRaisesRegex(JobFailed, "ValueError: attempt 3"):
            self.client.put("default", "real_jobs.fails").result(30)
        ids = self.client.put_many([real_jobs.add.prepare(n) for n in range(200)])
        self.assertEqual(gather(ids, 30), [n + 1 for n in range(200)])
        self.assertEqual(len(set(as_completed(ids, 30))), 200)
        long = self.client.put("default", "real_jobs.long")
        while long.info().state != "running":
            pass
        self.assertEqual(long.cancel(timeout=30), "canceled")
        with self.assertRaises(TimeoutError):
            self.client.put("nobody", "c").result(0.1)

    def test_coroutines_await_over_one_connection(self):
        async def story():
            ids = await self.client.aput_many([real_jobs.add.prepare(n) for n in range(50)])
            self.assertEqual(await asyncio.gather(*(id.aresult(30) for id in ids)), [n + 1 for n in range(50)])
            with self.assertRaises(asyncio.TimeoutError if sys.version_info >= (3, 11) else TimeoutError):
                await (await self.client.aput("nobody", "c")).aresult(0.1)
            self.assertEqual(len([id async for id in self.client.as_completed(list(map(str, ids)), 30)]), 50)

        before = self.redis.connections()
        asyncio.run(story())
        # Those of calls, which are kept, one that hears, and what the supervisor opens meanwhile.
        self.assertLess(self.redis.connections() - before, 45)

    def test_use_leads_puts_of_the_process_there(self):
        from taskvisor.client import stand_in

        self.addCleanup(setattr, stand_in.current, "default", None)
        with mock.patch.dict(os.environ, TASKVISOR_RUN_DIR="/nowhere", PYTEST_CURRENT_TEST="x"):
            self.client.use()
            self.assertEqual(real_jobs.add.put(4).result(30), 5)
            self.assertEqual(asyncio.run(self.awaited()), 6)
            from taskvisor import testing

            with testing.recording() as jobs:
                real_jobs.add.put(9)
            self.assertEqual(len(jobs.jobs), 1)

    async def awaited(self):
        return await (await real_jobs.add.aput(5)).aresult(30)

    def test_options_name_the_redis_that_a_call_goes_to(self):
        self.assertEqual(real_jobs.add.options(client=self.client, retries=1).put(1, b=6).result(30), 7)

    def test_put_whose_answer_is_lost_queues_once(self):
        link, lost = self.client.place.link, []
        call = link.call

        def lose(command, *arguments):
            answer = call(command, *arguments)
            if command == "put" and not lost:
                lost.append(answer)
                raise link.errors.ConnectionError("lost")
            return answer

        with mock.patch.object(link, "call", lose):
            one = self.client.put("nobody", "c")
            lost.clear()
            two = self.client.put("nobody", "c", id="mine")
        self.assertEqual(link.redis.zcard("ql:q:nobody-work"), 2)
        self.assertEqual({one.info().state, two.info().state}, {"waiting"})

    def test_threads_and_forked_processes_share_a_client(self):
        found = []
        threads = [threading.Thread(target=lambda n=n: found.append(
            self.client.put("default", "real_jobs.add", [n]).result(30))) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(found), list(range(1, 11)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Its one thread listens; the child has one of its own.
            pid = os.fork()
        if pid == 0:
            try:
                os._exit(self.client.put("default", "real_jobs.add", [20]).result(30))
            finally:
                os._exit(1)
        self.assertEqual(os.WEXITSTATUS(os.waitpid(pid, 0)[1]), 21)


class Without(unittest.TestCase):
    def test_missing_package_is_named_with_how_to_install_it(self):
        from taskvisor.redis import RedisClient

        with mock.patch.dict(sys.modules, {"redis": None}), \
                self.assertRaisesRegex(ImportError, r"pip install 'taskvisor\[redis\]'"):
            RedisClient("redis://localhost")


if __name__ == "__main__":
    support.unittest.main()
