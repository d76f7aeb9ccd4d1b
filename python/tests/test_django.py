"""The backend for tasks of Django, by real workers: the shapes of Django's own tests of backends."""

import asyncio
import datetime
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import postgres
import real
import rq_installed
import support

from taskvisor import Client, JobId, testing

DJANGO = "6.1.3"
#: What Django's own tests of PostgreSQL install.
DRIVER = (("psycopg", "3.2.10"), ("psycopg-binary", "3.2.10"))


class Site(testing.Server):
    """A supervisor whose workers run the tasks of the site."""

    def _pool(self):
        pool = super()._pool()
        # The workers find Django where the tests do, after the standard library.
        pool["command"] = [sys.executable, "-m", "taskvisor.django"]
        pool["env"]["set"].update(DJANGO_SETTINGS_MODULE="django_site.settings", SITE_DATABASE=os.environ["SITE_DATABASE"])
        if "SITE_POSTGRES" in os.environ:
            pool["env"]["set"]["SITE_POSTGRES"] = os.environ["SITE_POSTGRES"]
        return pool


class DjangoTest(real.RealTest):
    mode, workers = "prefork", 2

    @classmethod
    def setUpClass(cls):
        if sys.version_info < (3, 12):
            raise unittest.SkipTest("Django 6 needs Python 3.12")
        if real.program() is None:
            raise unittest.SkipTest("no program taskvisor: cargo build makes it")
        for package, version in (("django", DJANGO), *(DRIVER if "SITE_POSTGRES" in os.environ else ())):
            site = rq_installed.site(version, package)
            if site not in sys.path:
                sys.path.append(site)
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        if "SITE_DATABASE" not in os.environ:
            # Django reads it once in a process.
            os.environ["SITE_DATABASE"] = os.path.join(tempfile.mkdtemp(), "site.db")
        os.environ["DJANGO_SETTINGS_MODULE"] = "django_site.settings"
        cls.addClassCleanup(os.environ.pop, "DJANGO_SETTINGS_MODULE")
        import django

        django.setup()
        from django.db import connection
        from django_site import tasks

        cls.tasks = tasks
        with connection.cursor() as cursor:
            cursor.execute("create table if not exists put (id text)")
        connection.close()
        cls.running = Site("django_site", program=real.program(), mode=cls.mode, workers=cls.workers,
                           queues=["default", "low"])
        cls.running.start()
        cls.addClassCleanup(cls.running.stop)

    def done(self, result):
        """The result once the task has ended."""
        JobId(result.id).wait(30)
        result.refresh()
        return result


class Tasks(DjangoTest):
    def test_task_runs_and_its_result_is_read(self):
        from django.tasks import TaskResultStatus

        result = self.tasks.add.enqueue(3, b=4)
        self.assertEqual((result.status, result.args, result.kwargs, result.attempts), (TaskResultStatus.READY, [3], {"b": 4}, 0))
        with self.assertRaisesRegex(ValueError, "Task has not finished yet"):
            result.return_value
        self.done(result)
        self.assertEqual((result.status, result.return_value, result.is_finished, result.errors, result.attempts),
                         (TaskResultStatus.SUCCESSFUL, 7, True, [], 1))
        self.assertTrue(result.enqueued_at <= result.started_at <= result.last_attempted_at <= result.finished_at)
        self.assertRegex(result.worker_ids[0], r"^\w{8}-default\.\d#\d+$")
        again = self.tasks.add.get_result(result.id)
        self.assertEqual((again.id, again.return_value, again.task, again.backend), (result.id, 7, self.tasks.add, "default"))
        self.assertLessEqual(len(result.id), 64)

    def test_schedule_of_a_job_beside_the_tasks_is_taken_over(self):
        name = "code:default:site.Nightly"
        found, = Client().recurring()
        self.assertEqual((found["recurring"]["name"], found["recurring"]["schedule"]["cron"]["line"]), (name, "0 3 * * *"))
        self.assertEqual(JobId(Client().run_recurring(name)["id"]).result(30), "night")

    def test_every_shape_of_arguments_and_results(self):
        for args, kwargs in ([], {}), ([1, "a", None, [1.5], {"x": [True]}], {"named": {"a": "\u00e4"}}):
            result = self.done(self.tasks.noop.enqueue(*args, **kwargs))
            self.assertEqual((result.args, result.kwargs, result.return_value), (args, kwargs, None))
        with self.assertRaises(TypeError):
            self.tasks.noop.enqueue(object())
        self.assertEqual(self.done(self.tasks.coroutine.enqueue(4)).return_value, 8)

    def test_failure_has_the_class_and_the_trace_of_its_exception(self):
        from django.tasks import TaskResultStatus

        result = self.done(self.tasks.fails.enqueue())
        self.assertEqual((result.status, result.attempts, len(result.errors)), (TaskResultStatus.FAILED, 1, 1))
        self.assertIs(result.errors[0].exception_class, ValueError)
        self.assertIn("This Task failed due to ValueError", result.errors[0].traceback)
        with self.assertRaisesRegex(ValueError, "Task failed"):
            result.return_value
        self.assertIs(self.done(self.tasks.cannot_be_kept.enqueue()).errors[0].exception_class, TypeError)
        self.assertIs(self.done(self.tasks.exits.enqueue()).errors[0].exception_class, SystemExit)
        late = self.done(self.tasks.sleeps.enqueue())
        self.assertEqual(late.status, TaskResultStatus.FAILED)
        self.assertTrue(issubclass(late.errors[0].exception_class, BaseException))

    def test_receivers_use_the_database_and_do_not_hide_the_failure_of_a_coroutine(self):
        for kwargs in ({}, {"and": "the receiver fails"}):
            result = self.done(self.tasks.fails_awaited.enqueue(**kwargs))
            self.assertIs(result.errors[0].exception_class, ValueError, result.errors)
            self.assertEqual(self.done(self.tasks.ends.enqueue(result.id)).return_value, [f"{result.id} builtins.ValueError"])

    def test_retries_are_attempts_with_an_error_each(self):
        with tempfile.TemporaryDirectory() as directory:
            result = self.done(self.tasks.third_time.enqueue(os.path.join(directory, "x")))
        self.assertEqual((result.return_value, result.attempts, len(result.errors)), ("at last", 3, 2))
        self.assertIs(result.errors[1].exception_class, KeyError)
        late = self.tasks.fails.using(backend="late").enqueue()
        self.assertEqual(self.done(late).attempts, 2)

    def test_context_names_the_workers_of_all_attempts(self):
        for _ in range(2):
            result = self.done(self.tasks.workers.enqueue())
            self.assertEqual((len(result.worker_ids), result.return_value), (3, result.worker_ids))

    def test_context_tells_the_attempt(self):
        result = self.done(self.tasks.with_context.enqueue(9))
        self.assertEqual(result.return_value, [1, result.id, "RUNNING", 9])
        self.assertEqual(self.done(self.tasks.coroutine_with_context.enqueue()).return_value, 1)

    def test_options_of_a_task_are_those_of_its_job(self):
        from django.tasks.exceptions import InvalidTask

        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        result = self.tasks.low.using(run_after=later, priority=-7).enqueue()
        record = JobId(result.id).info().record
        self.assertEqual((record["state"], record["priority"], record["queue"], record["class"], record["retries"]),
                         ("delayed", -7, "low", "django_site.tasks.low", 0))
        self.assertLess(abs(record["due_at_ms"] / 1000 - later.timestamp()), 2)
        read = self.tasks.low.get_result(result.id)
        self.assertEqual((read.task.priority, read.task.queue_name), (-7, "low"))
        self.assertLess(abs(read.task.run_after - later), datetime.timedelta(milliseconds=2))
        JobId(result.id).cancel()
        result.refresh()
        self.assertEqual(result.status, "FAILED")
        self.assertEqual(JobId(self.tasks.low.enqueue().id).info().record["priority"], 5)
        for options in ({"queue_name": "nowhere"}, {"priority": 101}, {"run_after": datetime.datetime(2030, 1, 1)}):
            with self.assertRaises(InvalidTask):
                self.tasks.low.using(**options)

    def test_missing_and_other_results_raise(self):
        from django.tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch

        with self.assertRaises(TaskResultDoesNotExist):
            self.tasks.add.get_result("nobody")
        from taskvisor import put

        other = put("default", "django_site.tasks.add", [1], delay=3600)
        with self.assertRaises(TaskResultDoesNotExist):
            self.tasks.add.get_result(other)
        result = self.tasks.noop.enqueue()
        with self.assertRaises(TaskResultMismatch):
            self.tasks.add.get_result(result.id)

    def test_coroutines_enqueue_and_read(self):
        async def story():
            result = await self.tasks.add.aenqueue(1)
            await JobId(result.id).awaited(30)
            await result.arefresh()
            return result.return_value, (await self.tasks.add.aget_result(result.id)).return_value

        self.assertEqual(asyncio.run(story()), (2, 2))

    def test_signals_are_sent_and_tasks_are_pickled(self):
        from django.tasks.signals import task_enqueued

        seen = []
        task_enqueued.connect(lambda sender, task_result, **_: seen.append((sender, task_result.id)), weak=False,
                              dispatch_uid="test")
        self.addCleanup(task_enqueued.disconnect, dispatch_uid="test")
        result = self.tasks.add.enqueue(1)
        from taskvisor.django import Backend, Task

        self.assertEqual(seen, [(Backend, result.id)])
        self.assertIsInstance(self.tasks.add, Task)
        self.assertEqual(pickle.loads(pickle.dumps(self.tasks.third_time)), self.tasks.third_time)

    def test_commit_puts_and_rollback_does_not(self):
        from django.db import transaction

        counts = self.tasks.counts.using(backend="late")
        put = mock.Mock(wraps=None)
        with mock.patch("taskvisor.client.putting.put_at", put):
            with self.assertRaises(KeyError), transaction.atomic():
                counts.enqueue()
                raise KeyError
            self.assertEqual(put.call_count, 0)
        with transaction.atomic():
            from django.db import connection

            with connection.cursor() as cursor:
                cursor.execute("insert into put values ('x')")
            result = counts.enqueue()
            self.assertIsNone(result.enqueued_at)
        self.assertIsNotNone(result.enqueued_at)
        self.assertGreaterEqual(self.done(result).return_value, 1)
        self.assertEqual(self.done(self.tasks.awaits_database.enqueue()).return_value, result.return_value)

    def test_check_names_a_supervisor_that_is_away(self):
        from django.core.exceptions import ImproperlyConfigured
        from django.tasks import default_task_backend as backend

        self.assertEqual(backend.check(), [])
        with mock.patch.dict(os.environ, TASKVISOR_RUN_DIR="/nowhere"):
            (found,) = backend.check()
        self.assertEqual(found.id, "taskvisor.W001")
        self.assertIn("nobody listens on /nowhere/ctl.sock", found.msg)
        from taskvisor.django import Backend

        with self.assertRaisesRegex(ImproperlyConfigured, "does not know: on_comit"):
            Backend("x", {"OPTIONS": {"on_comit": True}})
        self.assertEqual([backend.supports_defer, backend.supports_async_task, backend.supports_get_result,
                          backend.supports_priority], [True] * 4)
        named = Backend("default", {"QUEUES": [], "OPTIONS": {"socket": "/nowhere/ctl.sock"}})
        self.assertIn("nobody listens on /nowhere/ctl.sock", named.check()[0].msg)

    def test_check_names_a_redis_that_nobody_serves(self):
        from taskvisor.django import Backend

        if shutil.which("redis-server") is None:
            self.skipTest("no redis-server: apt-get install redis-server")
        site = rq_installed.site("8.1.0", "redis")
        if site not in sys.path:
            sys.path.append(site)
        redis = rq_installed.Redis()
        self.addCleanup(redis.end)
        backend = Backend("default", {"QUEUES": [], "OPTIONS": {"redis": redis.url}})
        self.addCleanup(backend._place.link.redis.close)
        (found,) = backend.check()
        self.assertEqual((found.id, found.msg), ("taskvisor.W001", f"TASKS['default']: no supervisor on {redis.url} takes jobs"))
        self.server(broker=redis.url)
        end = time.monotonic() + 20
        while backend.check() and time.monotonic() < end:
            pass
        self.assertEqual(backend.check(), [])

    def test_puts_of_tasks_are_recorded_in_tests(self):
        with testing.recording() as jobs:
            result = self.tasks.add.enqueue(1)
        self.assertEqual([job.id for job in jobs.jobs], [result.id])


class Forked(DjangoTest):
    mode = "fork"

    def test_task_asks_for_its_workers_when_somebody_looks(self):
        from taskvisor.client import running_job
        from taskvisor.django import tasks as own

        record = {"fence": 1, "started_at_ms": 1, "instance": "0123456789ab", "worker": {"slot": "mail.1", "generation": 2}}
        runtime = mock.Mock(**{"call.return_value": record})
        self.addCleanup(setattr, running_job.of_process, "job", None)
        for name, calls, result in (("with_context", 0, [1, "7", "RUNNING", 4]), ("names", 1, ["456789ab-mail.1#2"])):
            data = {"args": [4], "kwargs": {}, "backend": "default"}
            job = running_job.Job({"id": "7", "fence": 1, "class": f"django_site.tasks.{name}", "data": data}, runtime)
            running_job.of_process.job = job
            with mock.patch.object(own, "_own", []):
                self.assertEqual(own.Tasks().find(job).function(data), result)
            self.assertEqual(runtime.call.call_count, calls)

    def test_each_task_has_a_process_and_a_connection_of_its_own(self):
        one, other = (self.done(self.tasks.pid.enqueue()).return_value for _ in range(2))
        self.assertNotEqual(one[0], other[0])
        self.assertEqual((one[1], other[1]), (True, True))
        self.assertGreaterEqual(self.done(self.tasks.counts.enqueue()).return_value, 0)


@support.some_pythons
class OnPostgres(real.RealTest):
    """All of it on a PostgreSQL: Django reads its settings once in a process, so another one does it."""

    def setUp(self):
        super().setUp()
        if sys.version_info < (3, 12):
            self.skipTest("Django 6 needs Python 3.12")
        if "SITE_POSTGRES" in os.environ:
            self.skipTest("this is that process")
        if postgres.programs() is None:
            # Where all is to be tested, nothing is skipped.
            (self.fail if os.environ.get("CI") else self.skipTest)("no PostgreSQL: apt-get install postgresql")
        server = postgres.Postgres()
        self.addCleanup(server.end)
        self.environment = {**os.environ, "SITE_POSTGRES": server.directory}

    def test_every_shape_holds_on_postgresql(self):
        command = [sys.executable, "-m", "unittest", "test_django.Tasks", "test_django.Forked", "test_django.Connections"]
        done = subprocess.run(command, cwd=support.HERE, env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("skipped", done.stderr)


class Connections(DjangoTest):
    """What only a database with a server can show."""

    workers = 1

    @classmethod
    def setUpClass(cls):
        if "SITE_POSTGRES" not in os.environ:
            raise unittest.SkipTest("a server of a database is needed: OnPostgres runs these with one")
        super().setUpClass()

    def test_connection_is_kept_from_task_to_task_and_a_broken_one_is_replaced(self):
        from django.db import connection

        first, second = (self.done(self.tasks.backend_pid.enqueue()).return_value for _ in range(2))
        self.assertEqual(first, second)
        with connection.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(%s, 5000)", [first])
            self.assertEqual(cursor.fetchone(), (True,))
        # Nobody has told the worker: `close_old_connections` finds it once a task has failed by it.
        failed = self.done(self.tasks.backend_pid.enqueue())
        self.assertEqual(failed.status, "FAILED")
        after = self.done(self.tasks.backend_pid.enqueue())
        self.assertEqual(after.status, "SUCCESSFUL", after.errors)
        self.assertNotEqual(after.return_value, first)

    def test_task_that_leaves_a_transaction_broken_does_not_spoil_the_next(self):
        broken = self.done(self.tasks.breaks_transaction.enqueue())
        self.assertEqual(broken.status, "FAILED")
        self.assertGreater(self.done(self.tasks.backend_pid.enqueue()).return_value, 0)


if __name__ == "__main__":
    support.unittest.main()
