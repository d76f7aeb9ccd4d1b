"""`@job(cron=…)`: workers of a real supervisor take its schedule over, and remove it with the code."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

import real
import rq_installed

from taskvisor import Client, JobId, job
from taskvisor.client import registry
from taskvisor.testing import Server
from taskvisor.worker import schedules, start

PATIENCE_SECONDS = 30


class DecoratorTest(unittest.TestCase):
    def tearDown(self):
        for name in [name for name in registry.functions if name.startswith("cron.")]:
            del registry.functions[name]

    def test_schedule_is_that_of_the_api_with_the_job_of_a_plain_call(self):
        @job("cron.Plain", queue="mail", cron="0 3 * * *", tz="Europe/Vienna")
        def plain(days=7):
            return days

        @job("cron.Async", cron="@hourly")
        async def waits():
            pass

        self.assertEqual(plain.recurring["schedule"], {"cron": {"line": "0 3 * * *", "zone": "Europe/Vienna"}})
        self.assertEqual([plain.recurring["job"][name] for name in ("queue", "class", "data")], ["mail", "cron.Plain", {}])
        self.assertEqual(registry.schedules()["cron.Async"]["schedule"], {"cron": {"line": "@hourly"}})
        self.assertEqual(plain(2), 2)

    def test_function_that_needs_arguments_and_a_zone_without_a_line_are_refused(self):
        with self.assertRaisesRegex(TypeError, "with cron= is called without arguments: .*'to'"):
            @job("cron.Needs", cron="@daily")
            def needs(to):
                pass
        with self.assertRaisesRegex(ValueError, "tz='UTC' is the time zone of a cron="):
            job(tz="UTC")
        with self.assertRaisesRegex(ValueError, "cron must be a text like '0 3"):
            job(cron=3)

    def test_nothing_is_asked_without_a_supervisor_or_by_another_worker(self):
        with mock.patch.object(schedules, "take_over") as take_over:
            for environment in ({}, {"TASKVISOR_SOCKET": "/x", "TASKVISOR_POOL": "p", "TASKVISOR_WORKER": "p.2#1"}):
                with mock.patch.dict(os.environ, environment, clear=True):
                    self.assertEqual(start._take_over_schedules(registry), [])
        take_over.assert_not_called()

    def test_supervisor_that_cannot_be_asked_is_a_warning_of_the_worker(self):
        environment = {"TASKVISOR_SOCKET": "/nowhere/ctl.sock", "TASKVISOR_POOL": "p", "TASKVISOR_WORKER": "p.1#1"}
        with mock.patch.dict(os.environ, environment, clear=True):
            self.assertEqual(schedules.take_over({}), [])
            said, = schedules.take_over({"cron.Lost": {"job": {}}})
        self.assertIn("failed to take over the schedules of cron.Lost: nobody listens on /nowhere/ctl.sock", said)


    def test_supervisor_that_does_not_answer_holds_no_worker_up(self):
        with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as silent:
            silent.bind(f"{directory}/ctl.sock")
            silent.listen()
            environment = {"TASKVISOR_SOCKET": f"{directory}/ctl.sock", "TASKVISOR_POOL": "p", "TASKVISOR_WORKER": "p.1#1"}
            with mock.patch.dict(os.environ, environment, clear=True), \
                    mock.patch.object(schedules, "_LITTLE", 0.05), mock.patch.object(schedules, "_PATIENCE_SECONDS", 0.1):
                self.assertEqual(schedules.take_over({}), [])
                self.assertIn("gave no answer", schedules.take_over({"cron.Late": {"job": {}}})[0])


class RivalsTest(unittest.TestCase):
    def test_pools_that_put_the_same_at_the_same_moment_leave_that_of_the_first_by_name(self):
        for late, early in (("a", "b"), ("b", "a")):
            with self.subTest(late=late):
                self.assertEqual(self.after_both(late, early), ["code:a:Nightly"])

    def after_both(self, late, early):
        """The schedules after `early` has made its whole exchange between the first look of `late` and its put."""
        stored, others = {}, [early]
        order = {"job": {"queue": "q", "class": "Nightly"}, "schedule": {"cron": {"line": "@daily"}}}

        def run(pool):
            schedules._Exchange(None, pool, "mark", 1).run({f"code:{pool}:Nightly": schedules._marked(order, "mark")})

        def ask(exchange, method, route, body=b""):
            name = route[len("/v1/recurring/"):].replace("%3A", ":")
            if route == "/v1/status":
                answer = {"pools": [{"name": "a"}, {"name": "b"}]}
            elif method == "GET":
                answer = [{"recurring": {**one, "name": name}} for name, one in stored.items()]
            elif route.endswith("/remove"):
                answer = stored.pop(name[:-len("/remove")], None)
            else:
                if others:
                    run(others.pop())
                answer = stored[name] = json.loads(body)
            return mock.Mock(is_good=True, status=200, value=answer)

        with mock.patch.object(schedules._Exchange, "ask", ask):
            run(late)
        return list(stored)


class TakenOverTest(real.RealTest):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.code = directory.name
        sys.path.insert(0, self.code)
        self.addCleanup(sys.path.remove, self.code)

    def save(self, body, name="scheduled"):
        with open(os.path.join(self.code, f"{name}.py"), "w") as file:
            file.write("from taskvisor import job\n" + textwrap.dedent(body))

    def shown(self):
        return {one["recurring"]["name"]: one["recurring"]["schedule"]["cron"] for one in Client().recurring()}

    def until(self, wanted):
        end = time.monotonic() + PATIENCE_SECONDS
        while self.shown() != wanted:
            self.assertLess(time.monotonic(), end, self.shown())
            time.sleep(0.05)

    def test_recycle_takes_schedules_over_changes_and_removes_them_and_leaves_others(self):
        for mode in ("prefork", "fork")[:1 + (sys.version_info >= (3, 8))]:
            with self.subTest(mode=mode):
                self.save("""
                    @job("Nightly", cron="0 3 * * *", tz="Europe/Vienna")
                    def nightly(): return "night"

                    @job("Hourly", cron="@hourly")
                    def hourly(): pass
                    """)
                server = Server("scheduled", program=real.program(), mode=mode)
                server.start()
                self.addCleanup(server.stop)
                begin = {"code:default:Nightly": {"line": "0 3 * * *", "zone": "Europe/Vienna"},
                         "code:default:Hourly": {"line": "@hourly", "zone": "UTC"}}
                self.until(begin)
                listed = subprocess.run([real.program(), "recur", "list"], stdout=subprocess.PIPE, text=True, check=True)
                self.assertIn("code:default:Nightly", listed.stdout)
                put = Client().run_recurring("code:default:Nightly")
                self.assertEqual(JobId(put["id"]).result(30), "night")
                Client().put_recurring("mine", _mine.prepare(), cron="@daily")
                self.save("""
                    @job("Nightly", cron="0 4 * * *")
                    def nightly(): pass
                    """)
                subprocess.run([real.program(), "recycle"], stdout=subprocess.DEVNULL, check=True)
                self.until({"code:default:Nightly": {"line": "0 4 * * *", "zone": "UTC"}, "mine": {"line": "@daily", "zone": "UTC"}})
                self.save("""
                    @job("Nightly")
                    def nightly(): pass
                    """)
                subprocess.run([real.program(), "recycle"], stdout=subprocess.DEVNULL, check=True)
                self.until({"mine": {"line": "@daily", "zone": "UTC"}})
                self.save("""
                    @job("Nightly", cron="61 3 * * *")
                    def nightly(): pass
                    """)
                subprocess.run([real.program(), "recycle"], stdout=subprocess.DEVNULL, check=True)
                self.until_status("the schedule of the job 'Nightly' is refused: ")
                server.stop()

    def test_services_whose_pools_have_one_name_leave_the_schedules_of_each_other_on_a_redis(self):
        if shutil.which("redis-server") is None:
            self.skipTest("no redis-server: apt-get install redis-server")
        redis = rq_installed.Redis()
        self.addCleanup(redis.end)
        hourly, service = {"line": "@hourly", "zone": "UTC"}, """
            @job("{0}.Kept", cron="@hourly")
            def kept(): pass

            @job("{0}.Removed", cron="@hourly")
            def removed(): pass
            """
        for name in ("shop", "mail"):
            self.save(service.format(name), name)
            self.server(name, broker=redis.url)
        begin = {f"code:default:{name}.{job}": hourly for name in ("shop", "mail") for job in ("Kept", "Removed")}
        self.until(begin)
        self.save('@job("mail.Kept", cron="@hourly")\ndef kept(): pass\n', "mail")
        subprocess.run([real.program(), "recycle"], stdout=subprocess.DEVNULL, check=True)
        del begin["code:default:mail.Removed"]
        self.until(begin)

    def test_schedules_in_a_store_of_its_own_are_removed_under_another_host_name(self):
        self.save('@job("Nightly", cron="@daily")\ndef nightly(): pass\n')
        self.server("scheduled")
        self.until({"code:default:Nightly": {"line": "@daily", "zone": "UTC"}})
        environment = {"TASKVISOR_SOCKET": os.path.join(os.environ["TASKVISOR_RUN_DIR"], "ctl.sock"), "TASKVISOR_POOL": "default"}
        with mock.patch.dict(os.environ, environment), mock.patch("socket.gethostname", return_value="another"):
            self.assertEqual(schedules.take_over({}), [])
        self.assertEqual(self.shown(), {})

    def test_pools_with_one_code_put_each_schedule_once_and_none_outlives_its_pool(self):
        self.save('@job("Nightly", queue="slow", cron="@daily")\ndef nightly(): pass\n')
        command = [sys.executable, "-m", "taskvisor.worker", "scheduled"]

        def pools(*names):
            paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
            return {"pools": [{"name": name, "workers": 1, "queues": ["default"], "command": command,
                               "env": {"set": {"PYTHONPATH": paths}}} for name in names]}

        server = self.server("scheduled", settings=pools("slow", "fast"))
        daily = {"line": "@daily", "zone": "UTC"}

        def names():
            return sorted(self.shown())

        def is_ready():
            return all(slot["state"] == "ready" for pool in Client().status()["pools"] for slot in pool["slots"])

        # All workers have made their exchange when they are ready.
        self.wait_for(lambda: names() and is_ready())
        first, = names()
        self.assertEqual(self.shown(), {first: daily})
        kept = first[len("code:"):-len(":Nightly")]
        other, = {"slow", "fast"} - {kept}
        with open(os.path.join(server.directory, "settings.yaml"), "w") as file:
            json.dump(pools(other, "renamed"), file)
        subprocess.run([real.program(), "reload"], stdout=subprocess.DEVNULL, check=True)
        subprocess.run([real.program(), "recycle"], stdout=subprocess.DEVNULL, check=True)
        self.wait_for(lambda: names() in (["code:renamed:Nightly"], [f"code:{other}:Nightly"]))

    def wait_for(self, condition):
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), end, self.shown())
            time.sleep(0.05)

    def until_status(self, words):
        end = time.monotonic() + PATIENCE_SECONDS
        while words not in str(Client().status()):
            self.assertLess(time.monotonic(), end, Client().status())
            time.sleep(0.05)


@job("mine.Job")
def _mine():
    pass


if __name__ == "__main__":
    unittest.main()
