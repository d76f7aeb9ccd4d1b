"""The worker that runs jobs of RQ, with RQ's own versions and a redis-server."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import rq_installed
from support import HERE, PACKAGE, PATIENCE_SECONDS, Keeper, WorkerTest


class RqTest(WorkerTest):
    """Tests with a worker for jobs of RQ."""

    version = rq_installed.NEWEST

    @classmethod
    def setUpClass(cls):
        if cls.version not in rq_installed.versions():
            raise unittest.SkipTest(f"RQ {cls.version} does not run on this Python")
        cls.redis = rq_installed.Redis()
        cls.addClassCleanup(cls.redis.end)
        cls.producer = rq_installed.Producer(cls.version, cls.redis)
        cls.addClassCleanup(cls.producer.end)

    def jobs(self, *arguments, **options):
        env = {"PYTHONPATH": f"{PACKAGE}:{HERE}:{self.producer.site}", "RQ_REDIS_URL": f"rq+{self.redis.url}",
               **options.pop("env", {})}
        return self.worker("-m", "rq_sample", *arguments, program="taskvisor.rq", module=None, env=env, **options)

    def ended(self, worker, put, **more):
        """Puts a job and runs it to its end; returns its `done`. Its id is `self.id`."""
        data = {**self.producer.ask(f"put({put})"), **more}
        self.id = data["id"]
        worker.run("add", data, id=self.id)
        return worker.done()

    def returned(self, worker, put, **more):
        """The return value of a job in the mode fast."""
        done = self.ended(worker, put, **more)
        self.assertEqual(done["outcome"], "complete", done)
        self.assertEqual((done["result"]["mode"], done["result"]["rq"]), ("fast", self.version))
        value = done["result"]["return_value"]
        return None if value is None else self.producer.ask(f"result({value!r})")

    def status(self):
        return self.producer.ask(f"status({self.id!r})")


class Fast(RqTest):
    def test_functions_methods_and_coroutines_return(self):
        worker = self.jobs()
        self.assertNotIn("classes", worker.hello)
        self.assertEqual(self.returned(worker, "sample.add, 1, b=2"), 3)
        self.assertEqual(self.returned(worker, "'rq_sample.add', 'a', b='b'"), "ab")
        self.assertEqual(self.returned(worker, "sample.Counter(3).plus, 4"), 7)
        self.assertEqual(self.returned(worker, "'rq_sample.Counter.static', 4"), -4)
        self.assertEqual(self.returned(worker, "sample.later, 'x'"), f"x {self.id}")
        self.assertIsNone(self.returned(worker, "sample.nothing"))
        self.assertIn("adds 1 2\n", worker.stdout())
        self.assertEqual(self.status(), "queued")

    def test_worker_does_not_connect_to_redis_unless_the_job_does(self):
        worker = self.jobs()
        before = self.redis.connections()
        self.returned(worker, "sample.add, 1, on_success=Callback(sample.success)")
        self.ended(worker, "sample.fails, on_failure=Callback(sample.failure)")
        self.assertEqual(self.redis.connections(), before + 1, "our own to count them")
        self.returned(worker, "sample.keeps_meta, 'a', meta={'b': 1}")
        kept = self.producer.ask(f"Job.fetch({self.id!r}, connection=connection).meta")
        self.assertEqual(kept, {"b": 1, "a": self.id})

    def test_each_job_finds_the_process_as_the_application_made_it(self):
        worker = self.jobs()
        for _ in range(2):
            self.assertEqual(self.returned(worker, "'rq_later.changes'"), ["changed", "changed", 1])
            self.assertEqual(self.returned(worker, "'rq_later.look'"), ["yes", None, 9])
        said = "and the next one finds it as before: socket.setdefaulttimeout, os.environ (LOADED, MORE)\n"
        self.assertEqual((worker.stderr().count(said), worker.stderr().count("\n")), (2, 2), worker.stderr())
        native = self.jobs("--native")
        for _ in range(2):
            self.ended(native, "sample.add, 1, b=2")
        self.assertNotIn("left this changed", native.stderr())

    def test_ttl_and_changes_of_the_job_are_sent(self):
        worker = self.jobs("--results-ttl", "7")
        self.assertEqual(self.ended(worker, "sample.add, 1")["result"]["result_ttl"], 7)
        done = self.ended(worker, "sample.changes_itself, result_ttl=0")
        self.assertEqual(done["result"]["result_ttl"], 0)
        self.assertEqual(done["result"]["fields"], {"description": base64.b64encode(b"changed").decode()})

    def test_changes_by_a_failed_job_are_kept(self):
        worker = self.jobs()
        self.assertEqual(self.ended(worker, "sample.changes_itself, True")["outcome"], "failed")
        self.assertEqual(self.producer.ask(f"connection.hget('rq:job:' + {self.id!r}, 'description')"), b"changed")
        self.assertEqual(self.status(), "queued")

    def test_returned_retry_is_sent(self):
        worker = self.jobs()
        done = self.ended(worker, "sample.again, 3, True")
        self.assertEqual(done["result"]["retry"], {"max": 3, "intervals": [1, 2], "at_front": True})

    def test_unserializable_result_has_the_message_of_rq(self):
        self.assertEqual(self.returned(self.jobs(), "sample.a_lock"), "Unserializable return value")

    def test_failures_have_their_class_message_and_trace(self):
        worker = self.jobs()
        for put, group, message in (("sample.fails", "ValueError", "it fails"),
                                    ("sample.leaves", "SystemExit", "the job called sys.exit(3)"),
                                    ("'no.such.function'", "ValueError", "Invalid attribute name: no.such.function")):
            done = self.ended(worker, put)
            error = done["error"]
            self.assertEqual((done["outcome"], error["group"], error["message"]), ("failed", group, message))
            self.assertTrue(error["trace"].startswith("Traceback (most recent call last):\n"))
            self.assertNotIn(os.path.join(PACKAGE, "taskvisor"), error["trace"])

    def test_job_timeout_raises_an_exception_in_the_job(self):
        worker = self.jobs()
        # It was stopped for half a second.
        worker.stops, begun = [0.5], time.monotonic()
        done = self.ended(worker, "sample.too_long, job_timeout=1")
        self.assertLessEqual(1.5, time.monotonic() - begun)
        self.assertEqual(done["error"]["group"], "rq.timeouts.JobTimeoutException")
        self.assertEqual(done["error"]["message"], "Task exceeded maximum timeout value (1 seconds)")
        self.assertEqual(self.returned(worker, "sample.swallows_the_timeout, job_timeout=1"),
                         "Task exceeded maximum timeout value (1 seconds)")
        done = self.ended(worker, "sample.add, 1, on_success=Callback(sample.too_long_callback, timeout=1)")
        self.assertEqual(done["error"]["group"], "rq.timeouts.JobTimeoutException")

    def test_callbacks_see_the_status_and_their_exceptions_count(self):
        worker = self.jobs()
        self.returned(worker, "sample.add, 1, on_success=Callback(sample.success)")
        self.assertIn(f"success {self.id} finished 2\n", worker.stdout())
        self.ended(worker, "sample.fails, on_failure=Callback(sample.failure)")
        self.assertIn(f"failure {self.id} failed ValueError it fails True\n", worker.stdout())
        for put in ("sample.fails, on_failure=Callback(sample.raises)", "sample.add, 1, on_success=Callback(sample.raises)"):
            self.assertEqual(self.ended(worker, put)["error"]["group"], "KeyError")
        self.returned(worker, "sample.add, 1, on_success=Callback(sample.asks_redis)")
        self.assertEqual(self.producer.ask("connection.get('asked')"), b"2")

    def test_callbacks_are_called_for_jobs_that_ended_without_their_worker(self):
        worker = self.jobs("--exception-handler", "rq_sample.handler")
        done = self.ended(worker, "sample.add, 1, on_stopped=Callback(sample.stopped)", callback={"kind": "stopped"})
        self.assertEqual(done["result"], {"mode": "callback"})
        self.assertEqual(worker.stdout(), f"stopped {self.id}\n")
        done = self.ended(worker, "sample.add, 1, on_failure=Callback(sample.failure)",
                          callback={"kind": "abandoned"})
        self.assertEqual(done["outcome"], "complete")
        self.assertIn(f"AbandonedJobError  False\nhandler {self.id} AbandonedJobError\n", worker.stdout())
        done = self.ended(worker, "sample.add, 1", callback={"kind": "killed", "status": 9})
        self.assertEqual(done["outcome"], "complete", "RQ's own class has nothing to call")
        done = self.ended(worker, "sample.add, 1, on_stopped=Callback(sample.raises)", callback={"kind": "stopped"})
        self.assertEqual((done["outcome"], done["error"]["group"]), ("failed", "KeyError"))

    def test_the_config_module_sets_up_the_logging(self):
        worker = self.jobs("-c", "rq_sample")
        self.returned(worker, "sample.logs")
        self.assertIn("own a word\n", worker.stdout())

    def test_a_config_module_without_logging_is_taken(self):
        self.assertEqual(self.returned(self.jobs("-c", "json"), "sample.add, 1"), 2)

    def test_exception_handlers_are_called_until_one_returns_false(self):
        handlers = [word for name in ("handler", "last_handler", "raises") for word in
                    ("--exception-handler", f"rq_sample.{name}")]
        worker = self.jobs(*handlers)
        self.assertEqual(self.ended(worker, "sample.fails")["error"]["group"], "ValueError")
        self.assertEqual(worker.stdout(), f"handler {self.id} ValueError\nlast handler {self.id}\n")

    def django(self, **more):
        site = rq_installed.site("4.2.16", "django")
        return {"PYTHONPATH": f"{PACKAGE}:{HERE}:{self.producer.site}:{site}", "PATH": os.environ["PATH"],
                "DJANGO_SETTINGS_MODULE": "rq_django_settings", **more}

    def test_an_application_of_django_is_set_up_with_the_handlers_of_its_settings(self):
        worker = self.jobs(env=self.django())
        self.assertEqual(self.returned(worker, "sample.django_is_ready"), True)
        self.ended(worker, "sample.fails")
        self.assertIn(f"handler {self.id} ValueError\n", worker.stdout())
        worker = self.jobs("--exception-handler", "rq_sample.last_handler", env=self.django())
        self.ended(worker, "sample.fails")
        self.assertEqual(worker.stdout(), f"last handler {self.id}\n")

    def test_the_redis_of_the_queues_is_found_in_the_settings_of_django(self):
        def read(*arguments, **more):
            command = [sys.executable, "-m", "taskvisor.rq.settings", *arguments]
            return subprocess.run(command, env=self.django(**more), capture_output=True, text=True)

        for queues, url in ((["-q=high", "-q=default"], "redis://db:6380/2"), ([], "redis://db:6380/2"),
                            (["-q=far"], "redis://:p%2Fw@other:6379/0"), (["-q=unknown"], "redis://localhost:6379/0")):
            self.assertEqual(json.loads(read("", *queues).stdout)["url"], url)
        refused = read("", "-q=high", "-q=far")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("the queues high and far of RQ_QUEUES are in two Redis databases", refused.stderr)
        # Where django-rq is not used, RQ's own variables count.
        self.assertEqual(json.loads(read("", REDIS_URL="redis://own", WITHOUT_QUEUES="1").stdout)["url"], "redis://own")

    def test_overridden_methods_that_are_never_called_are_named_in_one_warning(self):
        worker = self.jobs("--worker-class", "rq_sample.WatchingWorker")
        name, fields = worker.receive()
        self.assertEqual(name, "warning")
        self.assertRegex(fields["text"], r"^rq_sample.WatchingWorker has .*: register_birth, execute_job, teardown$")
        self.assertEqual(self.ended(worker, "sample.add, 1")["outcome"], "complete")
        spawns = self.jobs("--worker-class", "rq.SpawnWorker")
        self.assertTrue(spawns.receive()[1]["text"].endswith(": SpawnWorker"))

    def test_json_is_a_serializer_too(self):
        worker = self.jobs("--serializer", "json")
        done = self.ended(worker, "'rq_sample.add', 1, serializer=rq.serializers.JSONSerializer")
        self.assertEqual(base64.b64decode(done["result"]["return_value"]), b"2")
        self.assertEqual(self.ended(self.jobs(), "'rq_sample.add', 1, serializer=rq.serializers.JSONSerializer")["error"]
                         ["group"], "rq.exceptions.DeserializationError")

    def test_a_child_of_a_template_runs_a_job(self):
        keeper = Keeper()
        self.addCleanup(keeper.close)
        self.addCleanup(keeper.theirs.close)
        worker = self.jobs(mode="fork", fork_socket=keeper.theirs)
        self.assertTrue(worker.hello["template"])
        for b in (2, 3):
            child = keeper.fork()
            self.addCleanup(child.close)
            self.assertEqual(self.returned(child, f"sample.keeps_meta, {b}"), {b: self.id})
            self.assertEqual(child.wait(), 0)

    def test_sigterm_ends_a_job_without_its_callbacks(self):
        worker = self.jobs()
        worker.run("add", self.producer.ask("put(sample.waits, on_failure=Callback(sample.failure))"))
        self.assertEqual(worker.receive()[0], "progress")
        worker.kill(signal.SIGTERM)
        self.assertEqual(worker.done()["error"]["group"], "Interrupted")
        self.assertEqual(worker.stdout(), "")
        self.assertRegex(worker.stderr(), "The job was here:\n(.*\n)*.*, in waits\n")


class Fast212(Fast):
    version = "2.12.0"


class Native(RqTest):
    def native(self, worker, put):
        done = self.ended(worker, put)
        self.assertEqual(done["outcome"], "complete", done)
        self.assertEqual((done["result"]["mode"], done["result"]["rq"]), ("native", self.version))
        self.assertEqual(done["result"]["status"], self.status())
        return self.status()

    def test_code_of_rq_ends_the_job_in_native_mode(self):
        worker = self.jobs("--native")
        self.assertEqual(self.native(worker, "sample.add, 1, b=2"), "finished")
        self.assertEqual(self.producer.ask(f"Job.fetch({self.id!r}, connection=connection).latest_result().return_value"), 3)
        self.assertEqual(self.native(worker, "sample.fails"), "failed")
        self.assertIn("it fails", self.producer.ask(
            f"Job.fetch({self.id!r}, connection=connection).latest_result().exc_string"))
        self.assertEqual(self.native(worker, "sample.fails, retry=Retry(max=2, interval=60)"), "scheduled")
        worker.stops, begun = [0.5], time.monotonic()
        self.assertEqual(self.native(worker, "sample.too_long, job_timeout=1"), "failed")
        self.assertLessEqual(1.5, time.monotonic() - begun)
        self.assertEqual(self.native(worker, "sample.add, 1, on_success=Callback(sample.raises)"), "failed")
        self.assertEqual(self.native(worker, "'no.such.function'"), "failed")

    def test_custom_classes_select_the_native_mode(self):
        for arguments in (["-d"], ["--worker-class", "rq_sample.OwnWorker"], ["--job-class", "rq_sample.OwnJob"],
                          ["--queue-class", "rq_sample.OwnQueue"], ["--connection-class", "rq_sample.OwnConnection"]):
            self.assertEqual(self.native(self.jobs(*arguments), "sample.add, 1"), "finished")
        worker = self.jobs("--worker-class", "rq_sample.OwnWorker", "--job-class", "rq_sample.OwnJob")
        self.native(worker, "sample.add, 1")
        self.assertIn("OwnWorker performs OwnJob", worker.stdout())

    def test_sigterm_kills_as_it_kills_a_work_horse(self):
        worker = self.jobs("--native")
        worker.run("add", self.producer.ask("put(sample.waits, on_failure=Callback(sample.failure))"))
        self.assertEqual(worker.receive()[0], "progress")
        worker.kill(signal.SIGTERM)
        self.assertEqual(worker.wait(), -signal.SIGTERM)

    def test_native_job_without_a_redis_url_fails_with_a_hint(self):
        worker = self.jobs("--native", env={"RQ_REDIS_URL": ""})
        done = self.ended(worker, "sample.add, 1")
        self.assertEqual(done["outcome"], "failed")
        self.assertIn("set RQ_REDIS_URL", done["error"]["message"])


class Native212(Native):
    version = "2.12.0"


class Native116(Native):
    version = "1.16.2"


class Refused(RqTest):
    def test_a_worker_with_another_prefix_runs_nothing(self):
        worker = self.jobs(env={"RQ_KEY_PREFIX": "mine"})
        done = self.ended(worker, "sample.add, 1")
        self.assertEqual(done["outcome"], "failed")
        self.assertIn("begin with 'rq'", done["error"]["message"])
        self.assertEqual(worker.stdout(), "")

    def test_invalid_job_of_rq_fails_and_the_worker_continues(self):
        worker = self.jobs()
        for data in (None, [1], {"id": "x"}, {"id": "x", "fields": {"data": "no base64"}}):
            done = worker.outcome("add", data)
            self.assertEqual((done["outcome"], done["error"]["group"]), ("failed", "TypeError"))
        done = self.ended(worker, "sample.add, 1", fields={})
        self.assertEqual((done["outcome"], done["error"]["group"]), ("failed", "rq.exceptions.NoSuchJobError"))
        self.assertEqual(self.returned(worker, "sample.add, 1"), 2)

    def test_option_that_cannot_be_loaded_is_named(self):
        worker = self.jobs("--worker-class", "rq_sample.NoSuchWorker", greet=False)
        self.assertNotEqual(worker.wait(), 0)
        self.assertIn("NoSuchWorker", worker.stderr())
        self.assertIn("taskvisor.rq: failed to load what the options name from", worker.stderr())

    def test_a_module_that_does_not_exist_takes_one_line(self):
        for flag in ("-c", "-m"):
            worker = self.jobs(flag, "no_such_module", greet=False)
            self.assertEqual(worker.wait(), 1)
            self.assertRegex(worker.stderr(), "^taskvisor.rq: failed to load no_such_module from .*: No module named "
                                              "'no_such_module': is it spelled right\\? -P DIR .*\n$")

    def test_the_mode_coroutine_is_refused(self):
        command = [sys.executable, "-m", "taskvisor.rq"]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": PACKAGE, "TASKVISOR_MODE": "coroutine"}, text=True,
                              capture_output=True, timeout=PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 2)
        self.assertIn("use the mode fork or prefork", done.stderr)


if __name__ == "__main__":
    unittest.main()
