"""Modules that a template of RQ imports by itself, as its jobs have needed them."""

import os
import sys
import tempfile
import unittest

from support import HERE, PACKAGE, Keeper
from test_rq import RqTest

#: What a module does at its import, and what is said of it.
EFFECTS = {
    "threads": ("import threading\nthreading.Thread(target=threading.Event().wait, name='beat', daemon=True).start()",
                "it starts threads (beat)"),
    "sockets": ("import socket\nopen_socket = socket.socket()", "it opens socket:["),
    "programs": ("import subprocess\nchild = subprocess.Popen(['sleep', '1'])", "it starts programs"),
    "variables": ("os.environ['CHANGED'] = 'yes'", "it changes os.environ (CHANGED)"),
    "path": ("import sys\nsys.path.insert(0, '/nowhere')", "it changes sys.path"),
    "log": ("import logging\nlogging.getLogger().addHandler(logging.NullHandler())", "it changes the root logger"),
    "exit": ("import atexit\natexit.register(print)", "it changes what is called at the exit"),
    "random": ("import random\ndice = random.Random(7)", "it makes random generators"),
    "handlers": ("import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)", "it changes the handler of SIGUSR1"),
    "performs": ("import rq\nclass Mine: pass\nrq.Worker.perform_job = lambda *_: True", "it changes how RQ performs jobs"),
    "ends": ("if os.path.exists(__file__ + '.seen'):\n    os._exit(3)\nopen(__file__ + '.seen', 'w').close()",
             "a trial of its import ended the process"),
    "raises": ("if os.path.exists(__file__ + '.seen'):\n    raise KeyError('again')\nopen(__file__ + '.seen', 'w').close()",
               "its import fails here: KeyError: 'again'"),
}


@unittest.skipIf(sys.version_info < (3, 8), "the mode fork needs Python 3.8")
class Preload(RqTest):
    def setUp(self):
        super().setUp()
        # Else a second version of a file could be taken for the first by its compiled one.
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)

    def write(self, name, text="", says="first"):
        path = os.path.join(self.place.name, f"{name}.py")
        with open(path + ".new", "w") as file:
            file.write(f"import os\n{text}\nPID = os.getpid()\ndef look():\n    return PID == os.getpid(), {says!r}\n"
                       "def fails():\n    raise ValueError\n")
        os.replace(path + ".new", path)

    def template(self, *arguments):
        self.keeper = Keeper()
        self.addCleanup(self.keeper.close)
        env = {"PYTHONPATH": f"{PACKAGE}:{HERE}:{self.producer.site}:{self.place.name}", "PYTHONDONTWRITEBYTECODE": "1"}
        template = self.jobs(*arguments, mode="fork", fork_socket=self.keeper.theirs, env=env)
        self.keeper.theirs.close()
        return template

    def run_one(self, put, child=None):
        child = child or self.keeper.fork()
        self.addCleanup(child.close)
        done = self.ended(child, put)
        self.assertEqual(child.wait(), 0)
        return done

    def look(self, module, child=None):
        """Whether the job has imported its module itself, and what the module says."""
        done = self.run_one(f"'{module}.look'", child)
        self.assertEqual(done["outcome"], "complete", done)
        return tuple(self.producer.ask(f"result({done['result']['return_value']!r})"))

    def test_a_module_that_a_job_has_loaded_is_imported_once_for_all_that_follow(self):
        self.write("tasks_one")
        self.write("tasks_two")
        template = self.template("--preload", "auto")
        self.assertEqual(self.look("tasks_one"), (True, "first"))
        self.assertEqual(template.receive(), ("preloaded", {"modules": ["tasks_one"]}))
        self.assertEqual(self.look("tasks_one"), (False, "first"))
        self.assertEqual(self.look("tasks_two"), (True, "first"))
        self.assertEqual(template.receive(), ("preloaded", {"modules": ["tasks_one", "tasks_two"]}))
        self.assertEqual(self.look("tasks_two"), (False, "first"))

    def test_a_module_whose_import_does_more_than_define_stays_with_its_jobs_and_is_named(self):
        for name, (text, why) in EFFECTS.items():
            with self.subTest(name):
                module = f"tasks_{name}"
                self.write(module, text)
                template = self.template("--preload", "auto")
                # RQ's own code ends the job whose module has changed RQ.
                self.run_one(f"'{module}.look'")
                frame, fields = template.receive()
                self.assertEqual(frame, "warning", fields)
                said = fields["text"]
                self.assertTrue(said.startswith(f"{module} is not imported for all jobs, but by each that needs it: {why}"),
                                said)
                template.kill(15)
                self.assertEqual(template.wait(), 0)

    def test_a_module_of_a_job_that_has_failed_is_not_imported(self):
        self.write("tasks_fail")
        self.write("tasks_well")
        template = self.template("--preload", "auto")
        self.assertEqual(self.run_one("'tasks_fail.fails'")["outcome"], "failed")
        self.look("tasks_well")
        self.assertEqual(template.receive(), ("preloaded", {"modules": ["tasks_well"]}))

    def test_an_import_that_does_not_end_is_given_up(self):
        with open(os.path.join(self.place.name, "hurry.py"), "w") as file:
            file.write("from taskvisor.worker import preload\npreload._PATIENCE = 3\n")
        # The first import is that of the job.
        self.write("tasks_hang", "import threading\nif os.path.exists(__file__ + '.seen'):\n    threading.Event().wait()\n"
                                 "open(__file__ + '.seen', 'w').close()")
        self.write("tasks_well")
        template = self.template("--preload", "auto", "-m", "hurry")
        self.look("tasks_hang")
        frame, fields = template.receive()
        self.assertEqual(frame, "warning", fields)
        self.assertIn("tasks_hang is not imported for all jobs, but by each that needs it: its import takes longer", fields["text"])
        self.look("tasks_well")
        self.assertEqual(template.receive(), ("preloaded", {"modules": ["tasks_well"]}))

    def test_without_the_option_nothing_is_imported(self):
        self.write("tasks_off")
        template = self.template()
        for _ in range(2):
            self.assertEqual(self.look("tasks_off"), (True, "first"))
        template.kill(15)
        self.assertEqual(template.wait(), 0)

    def test_code_that_changes_on_disk_is_never_run_as_it_was(self):
        self.write("tasks_old")
        template = self.template("--preload", "auto")
        self.look("tasks_old")
        self.assertEqual(template.receive()[0], "preloaded")
        ahead = self.keeper.fork()
        self.write("tasks_old", says="second")
        done = self.run_one("'tasks_old.look'", ahead)
        self.assertEqual((done["outcome"], done["after"]), ("snooze", 0), done)
        late = self.keeper.ask()
        self.addCleanup(late.close)
        self.assertEqual(template.wait(), 0, "it ends at the next order")
        self.assertIn("has changed: a new template imports it again", template.stderr())
        self.assertEqual(template.receive()[0], "leaving", "else its end would count as a crash")
        self.template("--preload", "auto")
        self.assertEqual(self.look("tasks_old"), (True, "second"))
