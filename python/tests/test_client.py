"""The clients of the API: every method, by a real supervisor, at its socket and by TCP with a token."""

import asyncio
import json
import os
import re
import shutil
import socket
import stat
import struct
import tempfile
import threading
import time
import unittest
from unittest import mock

import answers
import asynchronous
import real
import real_jobs
import support

import taskvisor
from taskvisor import JobFailed, NoSuchJob, PutError, SupervisorError, configure, gather
from taskvisor.api import AsyncClient, Client
from taskvisor.api import client as client_module
from taskvisor.client.settings import settings
from taskvisor.protocol import http

#: Routes that `Client` does not use: the same by other paths, and the end of one job, for which `POST /v1/wait` serves.
NOT_USED = {("GET", "/v1/jobs/{job}/wait"), ("POST", "/v2/notify")}
TOKEN = "5bd1e995a4c7f3e0d2"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def until(condition):
    """Asks until it is so."""
    end = time.monotonic() + 20
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it is not so within 20 s")


class Coroutines:
    """An `AsyncClient` that is called like a `Client`."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        method = getattr(self.client, name)
        if not asyncio.iscoroutinefunction(method):
            return method
        return lambda *args, **kwargs: asyncio.run(method(*args, **kwargs))


class Real(real.RealTest):
    """A supervisor that listens at its socket and by TCP."""

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.token_file = os.path.join(self.folder, "token")
        with open(os.open(self.token_file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(TOKEN + "\n")
        self.url = f"http://127.0.0.1:{free_port()}"
        listen = {"listen": self.url[len("http://"):], "token_file": self.token_file}
        self.running = self.server(settings={"api": listen, "wq": {"enabled": True}})

    def clients(self):
        """Each kind of client at each kind of place."""
        socket = os.path.join(os.environ["TASKVISOR_RUN_DIR"], "ctl.sock")
        for given in ({"socket": socket}, {"url": self.url, "token_file": self.token_file}):
            yield Client(**given)
            yield Coroutines(AsyncClient(**given))


def asked_routes(requests):
    """The routes in the description of the API that were asked."""
    with open(answers.paths()[0], encoding="utf-8") as file:
        described = json.load(file)["paths"]
    patterns = [(method.upper(), route, re.compile(re.sub(r"\{\w+\}", "[^/?]+", route) + r"(\?|$)"))
                for route, methods in described.items() for method in methods]
    unquoted = [(method, asked.replace("%2E", ".")) for method, asked in requests]
    found = {(method, route) for method, route, pattern in patterns
             if any(method == how and pattern.match(asked) for how, asked in unquoted)}
    ours = {(method, route) for method, route, _ in patterns if not route.startswith(("/management", "/wq"))}
    return ours, found


@support.some_pythons
class Everything(Real):
    def test_each_method_does_what_its_route_does(self):
        requests = []
        original = http.request

        def noted(method, route, *rest):
            requests.append((method, route))
            return original(method, route, *rest)

        with mock.patch.object(http, "request", noted):
            for number, client in enumerate(self.clients()):
                for part in (self.jobs, self.edits, self.queues, self.recurring, self.service, self.tasks):
                    with self.subTest(client=repr(client), part=part.__name__):
                        part(client, f"{part.__name__}{number}")
        ours, found = asked_routes(requests)
        # Those that end the supervisor have tests of their own.
        self.assertEqual(ours - found - NOT_USED, {("POST", "/v1/stop"), ("GET", "/v1/events"), ("GET", "/v1/fleet")})

    def jobs(self, client, name):
        id = client.put("default", "real_jobs.add", {"a": 1, "b": 2}, id=name, tags=["x"])
        self.assertEqual((id, id.result(20), id.info().state), (name, 3, "complete"))
        many = client.put_many([real_jobs.add.prepare(n) for n in range(3)])
        self.assertEqual(gather(many, 20), [1, 2, 3])
        self.assertEqual({ended.result() for ended in client.as_completed(list(map(str, many)), 20)}, {1, 2, 3})
        job = client.job(name)
        self.assertEqual((job.id, job.queue, job.class_name, job.data, job.result, job.record["tags"]),
                         (name, "default", "real_jobs.add", {"a": 1, "b": 2}, 3, ["x"]))
        self.assertIn(name, [job.id for job in client.jobs(state=["complete", "failed"], class_name="real_jobs.add",
                                                           queue="default", tag="x", since=0, limit=0)])
        self.assertEqual(client.ids(name), [name])
        found = client.search("real_jobs.add " + name)
        self.assertEqual(([job.id for job in found.jobs], found.next, found.looked), ([name], None, None))
        self.assertEqual(client.search("class:real_jobs.a* state:failed", tag="nobody has it").jobs, [])
        self.assertEqual(client.count(words="id:" + name)["states"], {"complete": 1})
        self.assertEqual(client.count(tag="x", state="complete", class_name="real_jobs.add")["states"], {"complete": 1})
        self.assertEqual((client.logs(name), client.logs(name, start=3, limit=2, stream="stdout")), ("adding\n", "in"))
        self.assertEqual((client.logs(name, tail=1, attempt=1), client.id(name).logs(tail=0)), ("adding\n", ""))
        client.retry(name)
        self.assertEqual(client.id(name).wait(20), "complete")
        client.discard(name)
        with self.assertRaises(NoSuchJob):
            client.job(name)
        failed = client.put("default", "real_jobs.fails_for_good", id=f"{name}-failed")
        with self.assertRaises(JobFailed):
            failed.result(20)
        self.assertEqual([group["group"] for group in client.failed(queue="default")], ["Fail"])
        swept = client.sweep("discard", "failed", class_name="real_jobs.fails_for_good", dry_run=True)
        self.assertEqual(swept["count"], 1)
        self.assertEqual(client.sweep("discard", "failed", group="Fail")["jobs"], [failed])

    def edits(self, client, name):
        first, second = client.put("default", "real_jobs.long"), client.put("default", "c", id=name, delay=3600)
        self.assertEqual(client.before(name), 0)
        client.set_priority(name, 7)
        self.assertEqual(client.tag(name, add=["a", "b"]), ["a", "b"])
        self.assertEqual(client.tag(name, remove=["a"]), ["b"])
        client.track(name)
        self.assertEqual([job.id for job in client.jobs(tracked=True)], [name])
        client.untrack(name)
        self.assertEqual(client.depend_on(name, [first]), "depends")
        self.assertEqual(client.depend_off(name, [first]), "delayed")
        self.assertEqual(client.depend_on(name, [first]), "depends")
        self.assertEqual(client.depend_off(name), "delayed")
        self.assertEqual(client.job(name).record["priority"], 7)
        self.assertIn("job", client.why_job(name))
        until(lambda: client.job(first).state == "running")
        self.assertEqual(client.picture(first)["job"], first)
        client.set_data(first, client.job(first).record["fence"], {"a": {1}})
        self.assertEqual(client.job(first).data, {"a": {1}})
        said = client.cancel([first, second, "nobody"], reason="over")
        self.assertEqual([each["job"] for each in said], [first, name, "nobody"])
        self.assertEqual((said[1]["state"], said[2]["refused"]["why"]), ("canceled", "no_job"))
        self.assertEqual(first.wait(20), "canceled")
        self.assertEqual(client.cancel([first])[0]["state"], "canceled")
        client.at_rest()

    def queues(self, client, queue):
        client.put(queue, "c", id=f"{queue}-1")
        client.pause_queue(queue, "lunch")
        found = client.queues()[queue]
        self.assertEqual((found["jobs"]["waiting"], found["paused"]["reason"]), (1, "lunch"))
        client.resume_queue(queue)
        self.assertIsNone(client.queues()[queue]["paused"])
        self.assertEqual(client.queue_stats("default")["failed"] >= 0, True)
        self.assertIn("real_jobs.add", [day["class"] for day in client.classes(class_name="real_jobs.add", days=2)])
        client.cancel([f"{queue}-1"])
        self.assertEqual(client.forget_queue(queue, discard=True)["count"], 1)
        self.assertNotIn(queue, client.queues())
        client.set_option("max_concurrency", 5, queue)
        self.assertIn((queue, "5"), [(one["queue"], one["value"]) for one in client.options()])
        client.unset_option("max_concurrency", queue)
        client.load_options({"grace": "5s"}, {queue: {"max_concurrency": "6"}})
        self.assertIn((queue, "6"), [(one["queue"], one["value"]) for one in client.options()])
        client.load_options(clear=True)
        self.assertNotIn(queue, [one["queue"] for one in client.options()])

    def recurring(self, client, name):
        made = client.put_recurring(name, real_jobs.add.prepare(5), cron="30 2 * * *", zone="Europe/Vienna")
        self.assertEqual((made["recurring"]["name"], made["count"]), (name, 0))
        ran = client.run_recurring(name)
        self.assertEqual(client.id(ran["id"]).result(20), 6)
        client.pause_recurring(name)
        self.assertIn("paused", client.recurring_job(name))
        client.resume_recurring(name)
        self.assertEqual([one["recurring"]["name"] for one in client.recurring()], [name])
        changed = client.put_recurring(name, real_jobs.add.prepare(5), every=3600, overlap="allow")
        self.assertEqual(changed["recurring"]["overlap"], "allow")
        client.remove_recurring(name)
        self.assertEqual(client.recurring(), [])
        with self.assertRaises(SupervisorError) as caught:
            client.recurring_job(name)
        self.assertNotIsInstance(caught.exception, NoSuchJob)
        with self.assertRaises(ValueError):
            client.put_recurring(name, real_jobs.add.prepare(5))

    def service(self, client, _):
        self.assertEqual(client.status()["pools"][0]["name"], "default")
        self.assertRegex(client.version(), r"^\d")
        self.assertIn("memory", client.broker())
        self.assertTrue(client.live())
        until(client.ready)
        self.assertIn("# TYPE", client.metrics())
        self.assertEqual(client.config()["settings"]["lease"]["from"], "default")
        self.assertEqual(client.doctor()["schema"], "taskvisor.doctor/1")
        self.assertEqual(client.series(queue="nobody", step="1m")["series"], [])
        self.assertEqual(client.openapi()["openapi"][:2], "3.")
        self.assertIn("slot", json.dumps(client.why_slot("default.1")))
        self.assertIn("pool", json.dumps(client.why_pool("default")))
        self.assertIn("pools", client.reload(dry_run=True))
        self.assertEqual(client.scale("default", to=3)["workers"], 3)
        self.assertEqual(client.scale("default", by=-1)["workers"], 2)
        self.assertEqual(client.pause("default", reason="x", until_stop=True)[0]["paused"], True)
        self.assertEqual(client.resume("default")[0]["paused"], False)
        self.assertEqual([client.pause()[0]["paused"], client.resume()[0]["paused"]], [True, False])
        self.assertEqual([client.recycle("default")[0]["pool"], client.recycle()[0]["pool"]], ["default", "default"])

    def tasks(self, client, tenant):
        entity = {"id": "r1", "type": "Room", "t": {"type": "Number", "value": 1}}
        taken = client.notify({"data": [entity]}, {"fiware-service": tenant, "taskvisor-class": "nobody.Knows"})
        self.assertEqual(client.tasks_count(tenant), 1)
        self.assertEqual(client.tasks(tenant)[0]["runtime"]["task_id"], taken["task_id"])
        self.assertEqual(client.tasks_summary(tenant, status="pending")[0]["status"], "pending")
        self.assertEqual(client.remove_tasks(tenant), 1)
        with self.assertRaises(ValueError):
            client.notify({"data": [entity]}, {"fiware-service": "a\r\nX: y"})


class Events(Real):
    def test_events_come_as_they_happen(self):
        for client in self.clients():
            seen = []
            if isinstance(client, Client):
                events = client.events(kind=["put", "complete"], queue="default")
                id = client.put("default", "real_jobs.add", [1])
                for event in events:
                    seen.append((event["kind"], event["job"]))
                    if event["kind"] == "complete":
                        break
                events.close()
            else:
                id = asyncio.run(self.follow(client.client, seen))
            self.assertEqual(seen, [("put", id), ("complete", id)])
        with self.assertRaisesRegex(SupervisorError, "answer 400"):
            Client().events(kind="nonsense")

    async def follow(self, client, seen):
        events = client.events(kind=["put", "complete"], queue="default")
        first = asyncio.ensure_future(events.__anext__())
        while not first.done():
            # What happens before it follows is not told.
            await (await client.put("default", "real_jobs.add", [1])).aresult(20)
        id = await client.put("default", "real_jobs.add", [1])
        async for event in events:
            if event["job"] == id:
                seen.append((event["kind"], id))
                if event["kind"] == "complete":
                    break
        await events.aclose()
        return id


class Elsewhere(Real):
    def test_put_and_wait_of_this_process_go_to_the_address_that_it_names(self):
        for number, how in enumerate(({"token": TOKEN}, {"token_file": self.token_file})):
            with self.subTest(how=list(how)):
                self.addCleanup(vars(settings).clear)
                configure(url=self.url, **how)
                with mock.patch.dict(os.environ, TASKVISOR_RUN_DIR="/nowhere", TASKVISOR_SOCKET=""):
                    id = real_jobs.add.put(number)
                    self.assertEqual((id.result(20), id.wait(), id.info().result), (number + 1, "complete", number + 1))
                    self.assertEqual(asyncio.run(self.awaited(number)), number + 1)
                    self.assertEqual(real_jobs.long.put().cancel(), "canceled")
                    self.assertEqual(id.logs(), "adding\n")
                vars(settings).clear()
        named = {"TASKVISOR_URL": self.url, "TASKVISOR_TOKEN_FILE": self.token_file, "TASKVISOR_RUN_DIR": "/nowhere"}
        with mock.patch.dict(os.environ, {**named, "PYTEST_CURRENT_TEST": "x"}):
            self.assertEqual(real_jobs.add.put(5).result(20), 6)

    async def awaited(self, number):
        return await (await real_jobs.add.aput(number)).aresult(20)

    def test_options_name_the_client_that_a_call_goes_to(self):
        for client in self.clients():
            place = client.client if isinstance(client, Coroutines) else client
            with mock.patch.dict(os.environ, TASKVISOR_RUN_DIR="/nowhere"):
                self.assertEqual(real_jobs.add.options(client=place, tags=["x"]).put(2).result(20), 3)

    def test_wait_goes_on_over_a_stop_and_a_start(self):
        client = Client(self.url, token=TOKEN)
        self.running.stop()
        self.running = self.server(broker=None, settings=self.running._settings)
        id = client.put("default", "real_jobs.long", id="long")
        ended = []
        waiting = threading.Thread(target=lambda: ended.append(id.wait(60)))
        waiting.start()
        self.running.restart()
        client.cancel(["long"])
        waiting.join(60)
        self.assertEqual(ended, ["canceled"])

    def test_wrong_token_address_and_file_are_refused_with_the_reason(self):
        with self.assertRaisesRegex(SupervisorError, "token") as caught:
            Client(self.url, token="wrong").status()
        self.assertEqual(caught.exception.code, 401)
        with self.assertRaisesRegex(PutError, "token"):
            Client(self.url, token="wrong").put("q", "c")
        for token, why in ((None, "no token"), ("a b", "blanks"), ("\u00e4", "blanks")):
            with self.assertRaisesRegex(SupervisorError, why):
                Client(self.url, token=token).status()
        os.chmod(self.token_file, stat.S_IRUSR | stat.S_IROTH)
        with self.assertRaisesRegex(SupervisorError, "others may read or change"):
            Client(self.url, token_file=self.token_file).status()
        for url in ("127.0.0.1:80", "ftp://x", "http://", "http://a@b", "http://x/y", "http://x?y"):
            with self.assertRaisesRegex(SupervisorError, "not the address of a supervisor"):
                Client(url, token="x")
        with self.assertRaisesRegex(ValueError, "not at both"):
            Client(self.url, socket="/x")
        self.addCleanup(setattr, settings, "patience", 30.0)
        configure(patience=0)
        nobody = f"http://127.0.0.1:{free_port()}"
        with self.assertRaisesRegex(SupervisorError, "nobody answers at .*see that the supervisor runs with api.listen"):
            Client(nobody, token="x").status()
        with self.assertRaisesRegex(SupervisorError, "nobody answers at"):
            asyncio.run(AsyncClient(nobody, token="x").status())
        with self.assertRaisesRegex(PutError, "nobody answers at"):
            Client(nobody, token="x").put("q", "c")

    def test_absent_silent_and_broken_supervisors_raise_one_kind_of_error(self):
        nobody = f"http://127.0.0.1:{free_port()}"
        silent = socket.socket()
        self.addCleanup(silent.close)
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        reset = socket.socket()
        self.addCleanup(reset.close)
        reset.bind(("127.0.0.1", 0))
        reset.listen(8)

        def break_off():
            for _ in range(6):
                connection, _ = reset.accept()
                connection.recv(4096)
                # Closed with RST.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

        threading.Thread(target=break_off, daemon=True).start()
        quiet, broken = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in (silent, reset))
        with mock.patch.object(client_module, "_SILENCE_SECONDS", 0.2):
            for url, asks in (nobody, "live ready logs events"), (broken, "live logs events"), (quiet, "events"):
                for client in Client(url, token="x"), AsyncClient(url, token="x"):
                    for ask in asks.split():
                        with self.subTest(url=url, ask=ask), self.assertRaises(SupervisorError):
                            self.asked(client, ask)
        for client in Client(quiet, token="x", timeout=0.1), Coroutines(AsyncClient(quiet, token="x", timeout=0.1)):
            with self.assertRaises(TimeoutError):
                client.live()

    def asked(self, client, ask):
        if ask == "logs":
            return client.id("7").logs()
        if isinstance(client, Client):
            return next(client.events()) if ask == "events" else getattr(client, ask)()
        return asyncio.run(client.events().__anext__() if ask == "events" else getattr(client, ask)())

    def test_what_may_be_done_once_only_is_not_sent_again(self):
        gone = socket.socket()
        gone.bind(("127.0.0.1", 0))
        gone.listen(8)
        self.addCleanup(gone.close)
        asked = []

        def hang_up():
            while True:
                try:
                    connection, _ = gone.accept()
                except OSError:
                    return
                asked.append(connection.recv(4096).split(b" ")[1])
                connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
        for client in Client(url, token="x"), Coroutines(AsyncClient(url, token="x")):
            with self.assertRaisesRegex(SupervisorError, "may have been carried out"):
                client.run_recurring("nightly")
            with self.assertRaisesRegex(SupervisorError, "may have been carried out"):
                client.stop()
        self.assertEqual(asked, [b"/v1/recurring/nightly/run", b"/v1/stop"] * 2)
        gone.shutdown(socket.SHUT_RDWR)

    def test_stop_does_not_wait_for_a_supervisor_to_stop(self):
        nobody = f"http://127.0.0.1:{free_port()}"
        with mock.patch("time.sleep", side_effect=AssertionError("it waits")):
            with self.assertRaisesRegex(SupervisorError, "nobody answers at"):
                Client(nobody, token="x").stop()
        with mock.patch("asyncio.sleep", side_effect=AssertionError("it waits")):
            with self.assertRaisesRegex(SupervisorError, "nobody answers at"):
                asyncio.run(AsyncClient(nobody, token="x").stop())

    def test_jobs_of_several_clients_are_waited_for_apart(self):
        one, other = Client(self.url, token=TOKEN), Client()
        with self.assertRaisesRegex(ValueError, "different clients"):
            gather([one.put("default", "real_jobs.add", 1), other.put("default", "real_jobs.add", 1)])

    def test_stop_ends_the_supervisor(self):
        for client in (Client(), Coroutines(AsyncClient(self.url, token=TOKEN))):
            client.stop("terminate")
            self.running._process.wait(30)
            self.running.restart()


class Made(unittest.TestCase):
    def test_coroutines_are_made_of_the_methods(self):
        for name in asynchronous.NAMES:
            with open(asynchronous.path(name), encoding="utf-8") as file:
                self.assertEqual(file.read(), asynchronous.made(name), "run python3 tests/asynchronous.py")

    def test_types_of_answers_are_those_of_the_description(self):
        description, module = answers.paths()
        if not os.path.exists(description):
            self.skipTest("the description of the API is not in a package")
        with open(description, encoding="utf-8") as file, open(module, encoding="utf-8") as made:
            known, described = answers.facts(made.read()), answers.facts(answers.made(json.load(file)))
        self.assertGreater(len(known), 300)
        self.assertEqual(answers.changed(known, described), {}, "run python3 tests/answers.py")
        self.assertEqual(answers.changed({"A": 'Literal["a"]', "B.c": "int"}, {"A": 'Literal["a", "b"]', "B.c": "str"}),
                         {"B.c": ("int", "str")})

    def test_clients_are_found_in_the_package_and_loaded_when_they_are_asked_for(self):
        self.assertIs(taskvisor.Client, Client)
        self.assertIs(taskvisor.AsyncClient, AsyncClient)
        with self.assertRaises(AttributeError):
            taskvisor.Nobody


if __name__ == "__main__":
    support.unittest.main()
