"""Starting a worker, and its errors when something is missing."""

import doctest
import importlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import package
import support

import taskvisor


class Start(support.WorkerTest):
    def by_hand(self, *arguments, **environment):
        environment = {**os.environ, "PYTHONPATH": support.PACKAGE, **environment}
        return subprocess.run([sys.executable, "-m", "taskvisor.worker", *arguments], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=support.PATIENCE_SECONDS)

    def test_worker_loads_no_heavy_modules_unless_the_application_does(self):
        # Each of these modules would make every worker heavier, and every child of a template slower.
        heavy = {"argparse", "asyncio", "concurrent.futures", "dataclasses", "http", "inspect", "random", "subprocess"}
        if sys.version_info < (3, 13):
            # Later versions load it by themselves.
            heavy.add("typing")
        script = ("import taskvisor\n@taskvisor.job\ndef f(a, b=1): pass\n"
                  "import taskvisor.worker.start, taskvisor.worker.prefork, taskvisor.worker.template, sys\nprint(*sys.modules)")
        # Without site, which loads modules for packages of the machine.
        done = subprocess.run([sys.executable, "-S", "-c", script], env={"PYTHONPATH": support.PACKAGE}, text=True,
                              stdout=subprocess.PIPE, timeout=support.PATIENCE_SECONDS, check=True)
        self.assertEqual(heavy & set(done.stdout.split()), set())

    def test_started_by_hand_it_prints_the_right_command(self):
        done = self.by_hand("app", "other")
        self.assertEqual(done.returncode, 1)
        self.assertIn("started by taskvisor", done.stderr)
        self.assertIn("taskvisor start -w 2 -m prefork -- python3 -m taskvisor.worker app other\n", done.stderr)

    def test_invalid_channel_descriptor_is_reported(self):
        self.assertIn("no open descriptor", self.by_hand("app", TASKVISOR_FD="77").stderr)
        if sys.version_info < (3, 8):
            forks = {"TASKVISOR_FD": "1", "TASKVISOR_MODE": "fork", "TASKVISOR_FORK_FD": "4"}
            self.assertIn("the mode fork needs Python 3.8 or newer", self.by_hand("app", **forks).stderr)
        self.assertIn("protocol 9", self.by_hand("app", TASKVISOR_FD="1", TASKVISOR_PROTOCOL="9").stderr)

    def refused(self, source, **options):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "broken_app.py"), "w") as file:
                file.write(source)
            path = f"{support.PACKAGE}:{directory}"
            worker = self.worker(module="broken_app", env={"PYTHONPATH": path}, greet=False, **options)
            self.assertEqual(worker.receive(), (None, None))
            return worker.wait(), worker.stderr()

    def test_import_error_of_the_application_is_printed_with_its_trace(self):
        for mode in ("prefork", "coroutine"):
            status, said = self.refused("import no_such_module\n", mode=mode)
            self.assertEqual(status, 1)
            self.assertIn("No module named 'no_such_module'", said)
            self.assertIn("failed to load broken_app", said)

    def test_a_module_that_does_not_exist_takes_one_line(self):
        for module in ("no_such_module", "no_such_package.module", "json.no_such_module"):
            worker = self.worker(module=module, greet=False)
            self.assertEqual((worker.receive(), worker.wait()), ((None, None), 1))
            self.assertRegex(worker.stderr(), rf"^taskvisor.worker: failed to load {module} from .*: No module named "
                                              r"'.*': is it spelled right\? If it is in another directory, start with --cwd .*\n$")

    def test_file_in_place_of_a_module_is_told_the_name_of_the_module(self):
        for file, module in (("sample.py", "sample"), ("./sample.py", "sample"), ("no/such.py", r"no\.such"), ("no/such", r"no\.such")):
            with self.subTest(file=file):
                worker = self.worker(module=file, greet=False)
                self.assertEqual((worker.receive(), worker.wait()), ((None, None), 1))
                self.assertRegex(worker.stderr(), "^taskvisor.worker: failed to load .*: that is a file; name the module as import "
                                                  rf"does: {module}\. If it is in another directory, .*\n$")

    def test_an_application_without_jobs_is_refused(self):
        said = "taskvisor.worker: no jobs in broken_app: decorate a function with @taskvisor.job\n"
        self.assertEqual(self.refused("pass\n"), (1, said))

    def test_sigterm_while_the_application_is_loaded_exits_0(self):
        self.assertEqual(self.refused("import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\n"), (0, ""))

    def test_modules_in_the_working_directory_are_found(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "here.py"), "w") as file:
                file.write("import taskvisor\n@taskvisor.job\ndef f(): return 'found'\n")
            before = os.getcwd()
            os.chdir(directory)
            try:
                worker = self.worker(module="here", env={"PYTHONPATH": support.PACKAGE})
            finally:
                os.chdir(before)
            self.assertEqual(worker.outcome("here.f")["result"], "found")

    def test_logging_configured_by_the_application_is_kept(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "logs.py"), "w") as file:
                file.write("import logging, taskvisor\nlogging.basicConfig(format='own %(message)s')\n"
                           "@taskvisor.job('f')\ndef f():\n    logging.info('unheard')\n    logging.error('heard')\n")
            worker = self.worker(module="logs", env={"PYTHONPATH": f"{support.PACKAGE}:{directory}"})
            worker.outcome("f")
            self.assertEqual(worker.stderr(), "own heard\n")


class Documentation(unittest.TestCase):
    def test_the_examples_of_the_readme_work(self):
        with open(os.path.join(support.PACKAGE, "README.md")) as file:
            first, *examples = re.findall(r"^```python\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
        app = type(sys)("app")
        with mock.patch.dict(sys.modules, {"app": app}), mock.patch("builtins.print"), \
                mock.patch("taskvisor.client.outside.put", side_effect=lambda jobs: ["id"] * len(jobs)) as queued:
            exec(first, app.__dict__)
            names = {"__name__": "readme"}
            for example in examples:
                exec(example, names)
            names["convert"]("/a")
            with self.assertRaises(taskvisor.Fail):
                app.send("nobody")
        jobs = [job for call in queued.call_args_list for job in call[0][0]]
        self.assertEqual([job["class"] for job in jobs], ["mail.Send", "mail.Send", "app.crawl", "mail.Send",
                                                         "mail.Send", "Thumbnail", "Thumbnail"])

    def test_the_examples_of_the_docstrings_work(self):
        examined = 0
        for name in package.modules():
            # These import what is not installed everywhere: tests of their own load them.
            if not name.endswith(("__main__", ".pytest_plugin")) and not name.startswith("taskvisor.django"):
                failed, attempted = doctest.testmod(importlib.import_module(name), extraglobs={"job": taskvisor.job})
                self.assertEqual(failed, 0, name)
                examined += attempted
        self.assertGreater(examined, 50)
        for kind in (taskvisor.Retry, taskvisor.Snooze, taskvisor.Fail, taskvisor.Interrupted, taskvisor.TimeLimitExceeded):
            examples = doctest.DocTestFinder(recurse=False).find(kind, kind.__name__, globs=vars(taskvisor).copy())
            for example in examples:
                runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
                self.assertEqual(runner.run(example).failed, 0)

    def test_every_public_name_has_a_docstring(self):
        for name in taskvisor.__all__:
            self.assertTrue(getattr(taskvisor, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
