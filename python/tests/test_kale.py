"""The worker that runs tasks of kale. A stand-in for kale has its modules and its API.

With NDKALE, a folder with the real kale, the same tests run with that one: the stand-in has to behave as it does.
"""

import os
import pickle
import signal
import subprocess
import sys
import time
import unittest

from support import HERE, PACKAGE, PATIENCE_SECONDS, Keeper, WorkerTest

STANDIN = os.path.join(HERE, "kale_standin")
KALE = os.environ.get("NDKALE", STANDIN)
ENVIRONMENT = {"PYTHONPATH": f"{PACKAGE}:{HERE}:{KALE}", "KALE_SETTINGS_MODULE": "kale_settings"}
if KALE != STANDIN:
    # The real kale encrypts with this key where the settings name none.
    os.environ["KALE_STANDIN_KEY"] = "1234567890123456"
sys.path.append(STANDIN)
import standin  # noqa: E402  (beside the stand-in's kale)


def body(name, args=(), kwargs=None, retry_num=0, failure_num=0, app_data=None):
    """A message as a publisher sends it."""
    message = {"id": f"{name}_uuid_1", "task": f"kale_sample.{name}",
               "payload": {"args": args, "kwargs": kwargs or {}, "app_data": app_data}, "_enqueued_time": 123.5,
               "_publisher": "host[7]", "retry_num": retry_num, "failure_num": failure_num}
    return standin.seal(pickle.dumps(message))


def opened(text):
    return pickle.loads(standin.unseal(text))


class KaleTest(WorkerTest):
    """Tests with a worker for tasks of kale."""

    def tasks(self, **options):
        options = {"program": "taskvisor.kale", "module": None, "env": ENVIRONMENT, **options}
        return self.worker("-m", "kale_sample", **options)

    def ended(self, worker, name, data="", *, class_name=None, **more):
        """Runs a task to its end; returns its `done`. Its calls are in `self.asked`."""
        self.asked = []
        worker.run(class_name or f"kale_sample.{name}", body(name, **more) if data == "" else data, queue="mail")
        while True:
            word, fields = worker.receive()
            if word == "done":
                return fields
            self.assertEqual(word, "call", worker.stderr())
            self.asked.append((fields["verb"], fields["args"]))
            worker.send("reply", n=fields["n"], ok={"ids": ["put-1"]} if fields["verb"] == "put" else {})


class Runs(KaleTest):
    def test_a_task_gets_its_arguments_and_its_application_data(self):
        worker = self.tasks()
        self.assertNotIn("classes", worker.hello)
        done = self.ended(worker, "Noop", args=(1, "two"), kwargs={"k": None}, app_data={"a": 1})
        self.assertEqual(done, {"job": "j1", "fence": 7, "outcome": "complete", "result": None})
        self.assertEqual(worker.stdout(), "startup\nran (1, 'two') [('k', None)] {'a': 1} Noop_uuid_1\n")
        self.assertEqual(self.asked, [])

    def test_hooks_are_called_in_the_order_of_kale(self):
        worker = self.tasks()
        self.ended(worker, "Hooks")
        done = self.ended(worker, "Hooks", args=(True,))
        self.assertEqual((done["outcome"], done["error"]["message"]), ("snooze", "it fails"))
        name = "Hooks_uuid_1 kale_sample.Hooks"
        self.assertEqual(worker.stdout().splitlines(), [
            "startup", "setup", "pre ()", "run", "alert", "post ()", f"clean {name} None",
            "setup", "pre (True,)", "run", f"clean {name} it fails"])

    def test_a_task_that_was_moved_is_found_by_the_task_mapper(self):
        worker = self.tasks()
        done = self.ended(worker, "Noop", class_name="old.path.Noop")
        self.assertEqual(done["outcome"], "complete")

    def test_plain_json_runs_as_a_task(self):
        worker = self.tasks()
        done = self.ended(worker, "Noop", {"args": [1], "kwargs": {"to": "ann"}, "app_data": "x"})
        self.assertEqual(done["outcome"], "complete")
        self.assertIn("ran (1,) [('to', 'ann')] x Noop_uuid_j1", worker.stdout())
        self.assertEqual(self.ended(worker, "Noop", None)["outcome"], "complete")
        for wrong in ([1], {"to": "ann"}):
            done = self.ended(worker, "Noop", wrong)
            self.assertEqual((done["outcome"], done["error"]["group"]), ("failed_for_good", "TypeError"))

    def test_class_that_is_no_task_fails_and_the_worker_continues(self):
        worker = self.tasks()
        for name, group in (("Missing", "AttributeError"), ("NotATask", "TypeError")):
            done = self.ended(worker, name)
            self.assertEqual((done["outcome"], done["error"]["group"]), ("failed_for_good", group))
        done = self.ended(worker, "x", class_name="no.such.Module")
        self.assertEqual(done["error"]["group"], "ModuleNotFoundError")
        self.assertEqual(self.ended(worker, "x", class_name="Plain")["error"]["group"], "ImportError")
        self.assertEqual(self.ended(worker, "Noop", "no message")["outcome"], "failed_for_good")
        self.assertEqual(self.ended(worker, "Noop")["outcome"], "complete")

    def test_a_child_of_a_template_runs_tasks(self):
        keeper = Keeper()
        self.addCleanup(keeper.close)
        self.addCleanup(keeper.theirs.close)
        worker = self.tasks(mode="fork", fork_socket=keeper.theirs)
        self.assertTrue(worker.hello["template"])
        child = keeper.fork()
        self.addCleanup(child.close)
        self.assertEqual(self.ended(child, "Publishes")["outcome"], "complete")
        self.assertEqual([verb for verb, _ in self.asked], ["put"])


class Failures(KaleTest):
    def test_failed_task_is_delayed_by_the_counters_of_kale(self):
        worker = self.tasks()
        for retry_num, delay in ((0, 60), (1, 120), (2, 240), (3, 300)):
            done = self.ended(worker, "Hooks", args=(True,), retry_num=retry_num, failure_num=1)
            self.assertEqual((done["outcome"], done["after"]), ("snooze", delay))
            (verb, args), = self.asked
            self.assertEqual((verb, args["id"], args["fence"]), ("data", "j1", 7))
            said = opened(args["data"])
            self.assertEqual((said["id"], said["retry_num"], said["failure_num"]), ("Hooks_uuid_1", retry_num + 1, 2))
            self.assertEqual(said["payload"]["args"], (True,))

    def test_task_fails_for_good_as_in_kale(self):
        worker = self.tasks()
        for name, group, more in (("Unrecoverable", "KeyError", {}), ("Never", "ValueError", {}),
                                  ("Hooks", "ValueError", {"args": (True,), "failure_num": 4, "retry_num": 9}),
                                  ("Blacklisted", "kale.exceptions.BlacklistedException", {})):
            done = self.ended(worker, name, **more)
            self.assertEqual((done["outcome"], done["error"]["group"]), ("failed_for_good", group))
            self.assertEqual(self.asked, [])
        self.assertNotIn("never", worker.stdout())
        self.assertIn("PERMANENT_TASK_FAILURE: FAILURE_TYPE=max_retries", worker.stderr())

    def test_task_that_should_not_run_is_snoozed_without_a_failure(self):
        worker = self.tasks()
        done = self.ended(worker, "Later", retry_num=40, failure_num=1)
        self.assertEqual((done["outcome"], done["after"]), ("snooze", 300))
        self.assertNotIn("error", done)
        said = opened(self.asked[0][1]["data"])
        self.assertEqual((said["retry_num"], said["failure_num"]), (41, 1))
        self.assertNotIn("never", worker.stdout())

    def test_task_over_its_time_limit_is_interrupted_and_retried(self):
        worker = self.tasks()
        # It was stopped for half a second.
        worker.stops, begun = [0.5], time.monotonic()
        done = self.ended(worker, "Long")
        self.assertLessEqual(1.5, time.monotonic() - begun)
        self.assertEqual((done["outcome"], done["error"]["group"]), ("snooze", "kale.exceptions.TimeoutException"))
        self.assertIn("killed", worker.stdout())
        self.assertEqual(self.ended(worker, "Noop")["outcome"], "complete")

    def test_sys_exit_fails_the_task(self):
        worker = self.tasks()
        self.assertEqual(self.ended(worker, "Exits")["outcome"], "snooze")
        self.assertEqual(self.ended(worker, "Noop")["outcome"], "complete")

    def test_a_handle_failure_that_raises_fails_the_task(self):
        worker = self.tasks()
        done = self.ended(worker, "OwnFailure")
        self.assertEqual((done["outcome"], done["error"]["message"]), ("failed_for_good", "handle_failure itself"))
        self.assertIn("ValueError: first", worker.stderr())


class Publishing(KaleTest):
    def test_a_task_publishes_through_the_supervisor(self):
        worker = self.tasks()
        done = self.ended(worker, "Publishes", kwargs={"delay_sec": 5})
        self.assertEqual(done["outcome"], "complete")
        (verb, args), = self.asked
        new, = args["jobs"]
        self.assertEqual((verb, new["queue"], new["class"], new["delay"]), ("put", "mail", "kale_sample.Noop", 5))
        said = opened(new["data"])
        self.assertEqual(said["payload"], {"args": (1, "two"), "kwargs": {"k": None, "delay_sec": 5},
                                           "app_data": {"app": 1}})
        self.assertIn(said["id"], worker.stdout())

    def test_without_a_delay_a_task_may_run_at_once(self):
        worker = self.tasks()
        self.ended(worker, "Publishes")
        self.assertNotIn("delay", self.asked[0][1]["jobs"][0])

    def test_too_long_delay_is_refused_as_in_kale(self):
        worker = self.tasks()
        done = self.ended(worker, "Publishes", kwargs={"delay_sec": 301})
        self.assertEqual(done["error"]["group"], "kale.exceptions.InvalidTaskDelayException")


    def test_what_kale_refuses_to_publish_is_refused_by_kales_own_code(self):
        worker = self.tasks()
        for name, args, group in (("Misdirected", (), "KeyError"), ("TooSlow", (), "InvalidTimeLimitTaskException"),
                                  ("Noop", (os.urandom(4000),), "ChubbyTaskException")):
            done = self.ended(worker, "PublishesWrong", args=(name, *args), failure_num=4)
            self.assertEqual((done["outcome"], self.asked), ("failed_for_good", []))
            self.assertEqual(done["error"]["group"].split(".")[-1], group)
            self.assertEqual(worker.stdout().splitlines()[-1], group, "the caller sees it")


class Hooked(KaleTest):
    """Hooks of a worker of the application."""

    def hooked(self, **options):
        return self.worker("-m", "kale_sample", "-w", "kale_sample.Worker", program="taskvisor.kale", module=None,
                           env=ENVIRONMENT, **options)

    def test_hooks_of_a_worker_are_called_around_each_task(self):
        worker = self.hooked()
        self.assertEqual(self.ended(worker, "Noop")["outcome"], "complete")
        self.assertEqual(self.ended(worker, "Hooks", args=(True,))["outcome"], "snooze")
        self.assertEqual(self.ended(worker, "Never")["outcome"], "failed_for_good")
        self.assertEqual(self.ended(worker, "Later")["outcome"], "snooze")
        worker.kill(signal.SIGTERM)
        self.assertEqual(worker.wait(), 0)
        own = ("setup", "pre", "run", "clean", "ran")
        self.assertEqual([line for line in worker.stdout().splitlines() if line.split()[0] not in own], [
            "startup", "worker starts 0",
            "batch ['j1'] mail", "by the worker", "succeeded kale_sample.Noop True 1", "batch over 1 0 1",
            "batch ['j1'] mail", "by the worker", "failed kale_sample.Hooks it fails False", "batch over 1 0 2",
            "batch ['j1'] mail", "by the worker", "failed kale_sample.Never once True", "dead ['Never_uuid_1']",
            "batch over 1 0 3",
            "batch ['j1'] mail", "batch over 1 0 3",
            "shutdown", "worker ends 0 0"])
        self.assertIn("dlq-mail", worker.stderr())

    def test_hook_that_raises_costs_no_task(self):
        worker = self.hooked()
        self.assertEqual(self.ended(worker, "Noop", kwargs={"breaks": 1})["outcome"], "complete")
        self.assertIn("taskvisor.kale: _on_task_succeeded() of the worker raised:", worker.stderr())
        self.assertIn("ValueError: a hook fails", worker.stderr())
        self.assertEqual(self.ended(worker, "Noop")["outcome"], "complete")

    def test_forks_of_a_template_call_the_hooks_of_its_worker(self):
        keeper = Keeper()
        self.addCleanup(keeper.close)
        self.addCleanup(keeper.theirs.close)
        worker = self.hooked(mode="fork", fork_socket=keeper.theirs)
        child = keeper.fork()
        self.addCleanup(child.close)
        self.assertEqual(self.ended(child, "Noop")["outcome"], "complete")
        self.assertIn("succeeded kale_sample.Noop True 1\n", child.stdout())
        self.assertEqual(worker.stdout(), "startup\nworker starts 0\n")

    def test_worker_class_that_is_none_is_refused(self):
        worker = self.worker("-w", "kale_sample.Noop", program="taskvisor.kale", module=None, env=ENVIRONMENT, greet=False)
        self.assertEqual(worker.wait(), 1)
        self.assertIn("makes no kale.worker.Worker", worker.stderr())
        self.assertIn("failed to load kale_sample.Noop from", worker.stderr())


class Starts(KaleTest):
    def test_startup_and_shutdown_are_called(self):
        worker = self.tasks()
        worker.kill(signal.SIGTERM)
        self.assertEqual(worker.wait(), 0)
        self.assertEqual(worker.stdout(), "startup\nshutdown\n")

    def test_worker_without_the_file_of_queues_is_refused_as_by_kale(self):
        for more, said in (({"KALE_SETTINGS_MODULE": "no_such"}, "KALE_SETTINGS_MODULE must name a module"),
                           ({"KALE_SETTINGS_MODULE": "kale_nowhere"}, "failed to load QUEUE_CONFIG from /")):
            worker = self.tasks(env={**ENVIRONMENT, **more}, greet=False)
            self.assertEqual(worker.wait(), 1)
            self.assertIn(said, worker.stderr())

    def by_hand(self, *arguments, **environment):
        command = [sys.executable, "-m", "taskvisor.kale", *arguments]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": PACKAGE, **environment}, text=True,
                              capture_output=True, timeout=PATIENCE_SECONDS)

    def test_the_mode_coroutine_is_refused(self):
        done = self.by_hand(TASKVISOR_MODE="coroutine")
        self.assertEqual(done.returncode, 2)
        self.assertIn("use the mode prefork or fork", done.stderr)

    def test_worker_without_kale_names_the_missing_module(self):
        worker = self.tasks(env={"PYTHONPATH": f"{PACKAGE}:{HERE}"}, greet=False)
        self.assertNotEqual(worker.wait(), 0)
        self.assertIn("No module named 'kale'", worker.stderr())
        self.assertIn("taskvisor.kale: failed to load kale from", worker.stderr())


if __name__ == "__main__":
    unittest.main()
