"""`@job(cron=…)`: workers of a real supervisor take its schedule over, and remove it with the code."""

import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

import real

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
            said, = schedules.take_over({"cron.Lost": {}})
        self.assertIn("failed to take over the schedules of cron.Lost: nobody listens on /nowhere/ctl.sock", said)


    def test_supervisor_that_does_not_answer_holds_no_worker_up(self):
        with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as silent:
            silent.bind(f"{directory}/ctl.sock")
            silent.listen()
            environment = {"TASKVISOR_SOCKET": f"{directory}/ctl.sock", "TASKVISOR_POOL": "p", "TASKVISOR_WORKER": "p.1#1"}
            with mock.patch.dict(os.environ, environment, clear=True), \
                    mock.patch.object(schedules, "_LITTLE", 0.05), mock.patch.object(schedules, "_PATIENCE_SECONDS", 0.1):
                self.assertEqual(schedules.take_over({}), [])
                self.assertIn("gave no answer", schedules.take_over({"cron.Late": {}})[0])


class TakenOverTest(real.RealTest):
    def save(self, body):
        with open(os.path.join(self.code, "scheduled.py"), "w") as file:
            file.write("from taskvisor import job\n" + textwrap.dedent(body))

    def shown(self):
        return {one["recurring"]["name"]: one["recurring"]["schedule"]["cron"] for one in Client().recurring()}

    def until(self, wanted):
        end = time.monotonic() + PATIENCE_SECONDS
        while self.shown() != wanted:
            self.assertLess(time.monotonic(), end, self.shown())
            time.sleep(0.05)

    def test_recycle_takes_schedules_over_changes_and_removes_them_and_leaves_others(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.code = directory.name
        sys.path.insert(0, self.code)
        self.addCleanup(sys.path.remove, self.code)
        for mode in ("prefork", "fork"):
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
