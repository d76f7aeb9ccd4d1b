"""The worker that runs classes of qless-py."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

from support import PACKAGE, PATIENCE_SECONDS, Keeper, Worker, WorkerTest

#: The supervisor's record of the running job.
RECORD = {"id": "j1", "queue": "q", "class": "c", "data": {"n": 1}, "state": "running", "priority": 0,
          "tags": [], "tracked": True, "attempt": 2, "retries": 3, "put_at_ms": 1000_500,
          "started_at_ms": 1001_000, "worker": {"slot": "mail.4", "generation": 7},
          "instance": "01a1ff5c6f607327b942688873652440",
          "fence": 7, "expires_at_ms": 2_000_000_000_000, "depends": [{"job": "n", "state": "complete"}],
          "dependents": ["d"], "failure": {"group": "g", "message": "m"}, "forensics": {"ended_at_ms": 1_002_000},
          "history": [{"at_ms": 1002_000, "kind": "attempt", "attempt": {"attempt": 1, "state": "delayed"}}]}


class Answers:
    """A supervisor with some jobs that answers the worker's calls while a job runs."""

    def __init__(self, worker):
        self.worker = worker
        self.records = {"j1": RECORD}
        #: The calls, as (verb, arguments).
        self.asked = []
        #: All frames received.
        self.seen = []

    def run(self, class_name, data=None, **fields):
        """Runs a job to its end; returns its `done`."""
        self.asked.clear()
        self.worker.run(f"qless_sample.{class_name}", data, **fields)
        while True:
            name, fields = self.worker.receive()
            if name == "done":
                return fields
            if name is None:
                raise AssertionError(f"the worker closed the channel: {self.worker.stderr()}")
            self.seen.append((name, fields))
            if name == "call":
                self.worker.send("reply", n=fields["n"], **self.answer(fields["verb"], fields["args"]))

    def answer(self, verb, args):
        self.asked.append((verb, args))
        if verb == "put":
            return {"ok": {"ids": [f"put-{len(self.asked)}"]}}
        if args["id"] not in self.records:
            return {"error": f"no job has the id '{args['id']}'"}
        if verb == "data" and args["fence"] != self.records[args["id"]]["fence"]:
            return {"error": f"job '{args['id']}' is run by somebody else: its data is theirs to change"}
        return {"ok": self.records[args["id"]] if verb == "job" else {"tags": ["all"]} if verb == "tag" else {}}


class QlessTest(WorkerTest):
    """Tests with a worker for qless."""

    def answers(self, *arguments, **options):
        options = {"program": "taskvisor.qless", "module": None, **options}
        return Answers(self.worker(*arguments, **options))


class Methods(QlessTest):
    def test_hello_lists_no_classes_so_that_every_class_runs(self):
        self.assertNotIn("classes", self.answers().worker.hello)

    def test_method_named_like_the_queue_is_called_or_else_process(self):
        answers = self.answers()
        done = answers.run("Plain", {"to": "ann"}, queue="mail")
        self.assertEqual(done, {"job": "j1", "fence": 7, "outcome": "complete"})
        self.assertEqual(answers.run("Plain", queue="other")["outcome"], "complete")
        self.assertEqual(answers.worker.stdout(), "in mail for ann\nin other\n")
        self.assertEqual(answers.asked, [])

    def failed(self, answers, *arguments, **fields):
        done = answers.run(*arguments, **fields)
        self.assertEqual(done["outcome"], "failed_for_good", done)
        return done["error"]

    def test_class_that_cannot_be_imported_fails_with_its_trace(self):
        answers = self.answers()
        error = self.failed(answers, "None", queue="mail")
        self.assertEqual(error["group"], "mail-AttributeError")
        self.assertIn("has no attribute 'None'", error["message"])
        with tempfile.TemporaryDirectory() as directory:
            for name, text in (("qless_breaks", "import qless_sample\n1 / 0\n"), ("qless_torn", "def f(:\n"),
                               ("qless_exits", "import sys; sys.exit(2)\n")):
                with open(os.path.join(directory, f"{name}.py"), "w") as file:
                    file.write(text)
            answers = self.answers("-p", directory)
            groups = {}
            for name in ("qless_breaks", "qless_exits", "qless_torn", "no_such_module", "package.no_such"):
                answers.worker.run(f"{name}.Class")
                error = answers.worker.done()["error"]
                groups[name] = error["group"]
                if name == "qless_breaks":
                    self.assertIn("qless_breaks.py\", line 2", error["trace"])
                    self.assertNotIn("taskvisor/qless", error["trace"])
        self.assertEqual(groups, {"qless_breaks": "q-ZeroDivisionError", "qless_exits": "q-SystemExit",
                                  "qless_torn": "q-SyntaxError", "no_such_module": "q-ModuleNotFoundError",
                                  "package.no_such": "q-ModuleNotFoundError"})
        answers.worker.run("Bare")
        error = answers.worker.done()["error"]
        self.assertEqual((error["group"], error["message"]),
                         ("q-ImportError", "the class 'Bare' names no module; a class is called module.Class"))

    def test_missing_or_non_static_method_is_reported(self):
        answers = self.answers()
        self.assertEqual(self.failed(answers, "NoMethod", queue="mail"),
                         {"group": "mail-method-missing",
                          "message": 'qless_sample.NoMethod is missing a method "mail" or "process"'})
        self.assertEqual(self.failed(answers, "NotStatic"),
                         {"group": "q-method-type",
                          "message": "qless_sample.NotStatic.process is not static: put @staticmethod above it"})
        self.assertEqual(self.failed(answers, "NotStatic", queue="by_class")["group"], "by_class-method-type")
        self.assertEqual(self.failed(answers, "NoMethod", queue="other")["group"], "other-method-type")
        self.assertEqual(answers.run("NotStatic", queue="forgotten")["outcome"], "complete")

    def test_exception_fails_the_job_in_a_group_of_its_queue(self):
        error = self.failed(self.answers(), "Calls", {"calls": [["raise", ["why"]]]}, queue="mail")
        self.assertEqual((error["group"], error["message"]), ("mail-ValueError", "why"))
        self.assertIn("qless_sample.py", error["trace"])
        self.assertNotIn("taskvisor/qless", error["trace"])

    def test_sys_exit_fails_the_job_and_the_worker_continues(self):
        answers = self.answers()
        self.assertEqual(self.failed(answers, "Exits")["group"], "q-SystemExit")
        self.assertEqual(answers.run("Plain")["outcome"], "complete")

    def test_data_that_is_no_object_is_passed_to_the_method(self):
        answers = self.answers()
        self.assertEqual(self.failed(answers, "Calls", [1])["group"], "q-AttributeError")
        self.assertEqual(answers.run("Plain", [1])["outcome"], "complete")
        self.assertEqual(answers.run("Plain", raw={"b64": "/w=="})["outcome"], "complete")
        self.assertEqual(answers.asked, [])

    def test_a_coroutine_is_awaited_in_each_mode(self):
        for mode in ("prefork", "coroutine"):
            answers = self.answers(mode=mode)
            self.assertEqual(answers.run("Awaits")["outcome"], "complete")
            self.assertEqual(answers.run("Awaits", queue="again")["outcome"], "retry")
            self.assertEqual(self.failed(answers, "NoMethod")["group"], "q-method-missing")
            self.assertIn("awaited", answers.worker.stdout() + str(answers.seen))


class Words(QlessTest):
    """Outcomes that jobs set by themselves."""

    def said(self, *calls, **fields):
        """The `done` of a job that makes these calls; their results are in `gave`."""
        answers = fields.pop("answers", None) or self.answers()
        before = len(answers.worker.stdout())
        done = answers.run("Calls", {"calls": calls}, **fields)
        self.gave = dict(map(json.loads, answers.worker.stdout()[before:].splitlines()))
        self.stderr = answers.worker.stderr()
        self.asked = answers.asked
        return {name: value for name, value in done.items() if name not in ("job", "fence")}

    def test_complete(self):
        self.assertEqual(self.said(["complete", []]), {"outcome": "complete"})
        self.assertEqual(self.gave, {"complete": "complete"})
        self.assertEqual(self.said(["complete", ["next"]])["next"], {"queue": "next"})
        self.assertEqual(self.gave, {"complete": "waiting"})
        self.assertEqual(self.said(["complete", ["next", 5, ["a"]]])["next"],
                         {"queue": "next", "delay": 5, "depends": ["a"]})
        self.assertEqual(self.gave, {"complete": "depends"})
        self.said(["complete", [None, 5]])
        self.assertEqual(self.gave, {"complete": 'QlessException: Complete(): "delay" cannot be used without a '
                                                 '"next".'})

    def test_move_and_requeue(self):
        for name in ("move", "requeue"):
            self.assertEqual(self.said([name, ["there", 5]])["next"], {"queue": "there", "delay": 5})
            self.assertEqual(self.gave, {name: "j1"})
        self.assertEqual(self.said(["move", ["there", -1]])["outcome"], "complete")
        self.assertIn("failed to move job j1 to queue 'there': delay must be", self.gave["move"])

    def test_fail(self):
        self.assertEqual(self.said(["fail", ["group", "why"]]),
                         {"outcome": "failed_for_good", "error": {"group": "group", "message": "why"}})
        self.assertEqual(self.gave, {"fail": "j1"})

    def test_retry_while_tries_remain(self):
        self.assertEqual(self.said(["retry", [5]], retries=3, attempt=2), {"outcome": "retry", "after": 5})
        self.assertEqual(self.gave, {"retry": 1})
        self.assertEqual(self.said(["retry", [0, "g", "m"]], retries=1, attempt=1)["error"],
                         {"group": "g", "message": "m"})
        spent = {"group": "failed-retries-q", "message": 'Job exhausted retries in queue "q"'}
        self.assertEqual(self.said(["retry", []], retries=1, attempt=2),
                         {"outcome": "failed_for_good", "error": spent})
        self.assertEqual(self.gave, {"retry": -1})
        self.assertEqual(self.said(["retry", [0, "g", "m"]], retries=0)["error"], {"group": "g", "message": "m"})
        self.said(["retry", ["soon"]])
        self.assertEqual(self.gave["retry"], "QlessException: Retry(): delay must be a number of seconds, not 'soon'")

    def test_retry_decorator_retries_the_named_exceptions(self):
        answers = self.answers()
        self.assertEqual(answers.run("Tries", {"error": "key"}, retries=1)["outcome"], "retry")
        self.assertEqual(answers.run("Tries", {"error": "key"}, retries=0)["error"]["group"], "failed-retries-q")
        self.assertEqual(answers.run("Tries", {"error": "value"})["error"]["group"], "q-ValueError")

    def test_only_the_first_outcome_counts(self):
        self.assertEqual(self.said(["complete", []], ["complete", ["next"]]), {"outcome": "complete"})
        self.assertEqual(self.gave["complete"], "QlessException: Complete(): Job j1 is not currently running: complete")
        self.assertEqual(self.said(["complete", []], ["fail", ["g", "m"]])["outcome"], "complete")
        self.assertEqual(self.gave["fail"], "QlessException: Fail(): Job j1 is not currently running: complete")
        self.assertEqual(self.said(["fail", ["g", "m"]], ["retry", []])["outcome"], "failed_for_good")

    def test_exception_after_the_outcome_is_logged(self):
        self.assertEqual(self.said(["complete", []], ["raise", ["late"]]), {"outcome": "complete"})
        self.assertIn("job j1 is complete by its own word, and then raised:\n", self.stderr)
        self.assertIn("ValueError: late\n", self.stderr)

    def test_job_without_an_outcome_is_complete_and_logged(self):
        answers = self.answers()
        self.assertEqual(answers.run("Silent")["outcome"], "complete")
        self.assertIn("returned without complete(), fail() or retry()", answers.worker.stderr())

    def test_exceptions_of_taskvisor_set_the_outcome_too(self):
        answers = self.answers()
        self.assertEqual(answers.run("Modern"), {"job": "j1", "fence": 7, "outcome": "retry", "after": 3})
        self.assertEqual(answers.run("Modern", queue="late")["outcome"], "complete")
        self.assertIn("taskvisor.Fail: too late", answers.worker.stderr())

    def test_changed_data_is_saved(self):
        kept = {"calls": [["set", ["n", 5]], ["complete", ["next"]]], "n": 5}
        self.assertEqual(self.said(*kept["calls"])["outcome"], "complete")
        self.assertEqual(self.asked, [("data", {"id": "j1", "fence": 7, "data": kept})])
        for last in (["heartbeat", []], ["fail", ["g", "m"]], ["move", ["r"]], ["raise", ["x"]]):
            self.said(["set", ["n", 5]], last)
            self.assertEqual([verb for verb, _ in self.asked if verb != "job"], ["data"], last)
        self.said(["set", ["n", 5]], ["retry", []])
        self.assertEqual(self.asked, [])

    def test_data_of_a_lost_job_is_refused(self):
        answers = self.answers()
        answers.records["j1"] = {**RECORD, "fence": 8}
        self.said(["set", ["n", 5]], ["complete", []], answers=answers)
        self.assertIn("is run by somebody else", self.gave["complete"])
        self.said(["heartbeat", []], answers=answers)
        self.assertEqual(self.gave["heartbeat"], "LostLockException: Lost lock on j1")

    def test_data_can_be_assigned(self):
        self.said(["__setitem__", ["n", 1]], ["__setattr__", ["data", {}]], ["complete", []])
        self.assertEqual(self.asked, [("data", {"id": "j1", "fence": 7, "data": {}})])

    def test_data_that_is_no_json_fails_the_job(self):
        answers = self.answers()
        done = answers.run("Unsendable", {})
        self.assertEqual((done["outcome"], done["error"]["group"]), ("failed_for_good", "q-TypeError"))
        self.assertIn("not JSON: data.x: object", done["error"]["message"])
        self.assertIn("the data of job j1 is not kept: not JSON", answers.worker.stderr())

    def test_unsupported_methods_are_refused_with_an_alternative(self):
        for name, given, said in (("depend", ["x"], "depends JID on"), ("undepend", ["x"], "depends JID off"),
                                  ("timeout", [], "retry()")):
            self.said([name, given])
            self.assertIn("taskvisor's workers cannot do that", self.gave[name])
            self.assertIn(said, self.gave[name])

    def test_tags_tracking_priority_and_cancel_go_to_the_supervisor(self):
        self.said(["tag", ["a", "b"]], ["untag", ["c"]], ["track", []], ["untrack", []],
                  ["__setattr__", ["priority", 5]], ["cancel", []])
        self.assertEqual(self.asked, [("tag", {"id": "j1", "add": ["a", "b"]}), ("tag", {"id": "j1", "remove": ["c"]}),
                                      ("track", {"id": "j1"}), ("untrack", {"id": "j1"}),
                                      ("priority", {"id": "j1", "priority": 5}), ("cancel", {"id": "j1"})])
        self.assertEqual(self.gave["tag"], ["all"])


class Knowledge(QlessTest):
    """Attributes of the own job and of other jobs."""

    def known(self, *names, answers=None, **fields):
        answers = answers or self.answers()
        answers.run("Shows", {"names": names}, **fields)
        self.asked = answers.asked
        return json.loads(answers.worker.stdout())

    def test_attributes_sent_with_the_job_need_no_call(self):
        known = self.known("jid", "klass_name", "queue_name", "priority", "tags", "state", "original_retries",
                           "retries_left", "data", priority=5, tags=["x"], retries=4, attempt=2)
        self.assertEqual(self.asked, [])
        self.assertEqual(known.pop("data")["names"][0], "jid")
        self.assertEqual(known, {"jid": "j1", "klass_name": "qless_sample.Shows", "queue_name": "q", "priority": 5,
                                 "tags": ["x"], "state": "running", "original_retries": 4, "retries_left": 3})

    def test_all_other_attributes_need_one_call(self):
        known = self.known("tracked", "dependencies", "dependents", "failure", "expires_at", "worker_name", "ttl",
                           "history", "klass")
        self.assertEqual(self.asked, [("job", {"id": "j1"})])
        self.assertEqual((known["tracked"], known["dependencies"], known["dependents"]), (True, ["n"], ["d"]))
        self.assertEqual(known["failure"], {"group": "g", "message": "m", "when": 1002, "worker": ""})
        self.assertEqual(known["expires_at"], 2_000_000_000)
        self.assertGreater(known["ttl"], 0)
        self.assertTrue(known["worker_name"].endswith("-73652440-mail.4"), known)
        self.assertEqual(known["history"], [{"what": "put", "when": 1000},
                                            {"what": "attempt", "when": 1002, "attempt": 1, "state": "delayed"}])
        self.assertIn("Shows", known["klass"])

    def test_client_reaches_other_jobs_and_queues(self):
        answers = self.answers()
        answers.records["a"] = {**RECORD, "id": "a", "state": "delayed"}
        self.assertEqual(answers.run("Puts")["outcome"], "complete")
        puts = [args["jobs"] for verb, args in answers.asked if verb == "put"]
        self.assertEqual(puts, [[{"queue": "other", "class": "qless_sample.Plain", "data": {"n": 1}, "priority": 3,
                                  "delay": 2, "tags": ["x"], "retries": 1}],
                                [{"queue": "q", "class": "elsewhere.Class", "data": None, "id": "mine",
                                  "depends": ["a"]}]])
        said = answers.worker.stdout().splitlines()
        self.assertEqual(said[:4], ["put put-1", "put put-2", "scheduled {'n': 1} g 2 ['d']", "None"])
        self.assertIn("AttributeError: job.client.redis: a job of taskvisor has", said[4])
        self.assertIn("AttributeError: queue.pop: a job of taskvisor can only put", said[5])

    def test_job_sandbox_is_the_working_directory(self):
        with tempfile.TemporaryDirectory() as directory:
            answers = self.answers()
            answers.run("Where", cwd=directory)
            self.assertEqual(answers.worker.stdout(), f"{directory} True\n")
            answers.run("Where")
            self.assertIn("AttributeError: job.sandbox: the pool gives its jobs no directories",
                          answers.worker.stdout())

    def test_import_qless_works_without_qless_py(self):
        answers = self.answers()
        self.assertEqual(answers.run("Names")["outcome"], "complete")
        self.assertIn("QlessException: qless.Client: this is taskvisor's stand-in", answers.worker.stdout())

    def test_installed_qless_is_imported_instead_of_the_stand_in(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "qless.py"), "w") as file:
                file.write("class Own:\n    @staticmethod\n    def process(job):\n        job.complete()\n")
            answers = self.answers("-p", directory)
            answers.worker.run("qless.Own")
            self.assertEqual(answers.worker.done()["outcome"], "complete")


class Options(QlessTest):
    """Start, options and end of the worker."""

    def by_hand(self, *arguments, **environment):
        environment = {**os.environ, "PYTHONPATH": PACKAGE, **environment}
        return subprocess.run([sys.executable, "-m", "taskvisor.qless", *arguments], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE_SECONDS)

    def test_started_by_hand_it_prints_the_right_command(self):
        done = self.by_hand("-m", "app")
        self.assertEqual(done.returncode, 1)
        self.assertIn("-- python3 -m taskvisor.qless -m app\n", done.stderr)

    def test_options_of_the_supervisor_are_refused_with_a_hint(self):
        for option, said in (("-w", "taskvisor start -w N"), ("--queue", "taskvisor start -q QUEUE"),
                             ("--resume", "given back"), ("--host", "taskvisor start -b URL")):
            done = self.by_hand(option, "4") if option != "--resume" else self.by_hand(option)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{option} is not an option of the worker here", done.stderr)
            self.assertIn(said, done.stderr)

    def test_a_module_that_cannot_be_imported_ends_the_worker(self):
        worker = self.worker("-m", "no_such_module", program="taskvisor.qless", module=None, greet=False)
        self.assertEqual(worker.receive(), (None, None))
        self.assertEqual(worker.wait(), 1)
        self.assertIn("taskvisor.qless: failed to load no_such_module", worker.stderr())

    def test_modules_are_loaded_before_the_fork(self):
        keeper = Keeper()
        self.addCleanup(keeper.close)
        self.addCleanup(keeper.theirs.close)
        worker = self.worker("-m", "qless_sample", program="taskvisor.qless", module=None, mode="fork",
                             fork_socket=keeper.theirs)
        self.assertTrue(worker.hello["template"])
        child = keeper.fork()
        self.addCleanup(child.close)
        self.assertEqual(Answers(child).run("Names")["outcome"], "complete")
        self.assertTrue(child.stdout().endswith("False\n"), child.stdout())

    def test_changed_module_is_reloaded_only_with_reload(self):
        for options, second in ((["--reload"], "new"), ([], "old")):
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "qless_changes.py")

                def write(word, later, path=path):
                    with open(path, "w") as file:
                        file.write("class Says:\n    @staticmethod\n    def process(job):\n"
                                   f"        print({word!r})\n        job.complete()\n")
                    os.utime(path, (later, later))

                worker = self.answers("-p", directory, *options).worker
                write("old", 1_000_000_000)
                self.assertEqual(worker.outcome("qless_changes.Says")["outcome"], "complete")
                write("new", 2_000_000_000)
                self.assertEqual(worker.outcome("qless_changes.Says")["outcome"], "complete")
                self.assertEqual(worker.stdout(), f"old\n{second}\n")

    def test_reload_is_refused_outside_of_prefork(self):
        done = self.by_hand("--reload", TASKVISOR_MODE="fork")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--reload is for the mode prefork", done.stderr)

    def test_sigterm_interrupts_a_qless_job(self):
        answers = self.answers("-m", "qless_sample", mode="prefork")
        answers.worker.run("qless_sample.Calls", {"calls": [["heartbeat", []]]})
        name, call = answers.worker.receive()
        self.assertEqual((name, call["verb"]), ("call", "job"))
        answers.worker.kill(signal.SIGTERM)
        # SIGTERM hits the job after it got its answer, or before it waits for it; then the answer stays unread.
        with contextlib.suppress(BrokenPipeError):
            answers.worker.send("reply", n=call["n"], ok=RECORD)
        done = answers.worker.done()
        self.assertEqual((done["outcome"], done["error"]["group"]), ("canceled", "Interrupted"))

    def test_exceptions_are_subclasses_of_those_of_the_loaded_packages(self):
        from taskvisor.qless import LostLockException, QlessException
        self.assertIs(type(QlessException("no")), QlessException)
        theirs = {}
        for package, general, lost in (("qless", "QlessException", "LostLockException"),
                                       ("reqless", "ReqlessError", "LostLockError")):
            module = types.ModuleType(f"{package}.exceptions")
            setattr(module, general, type(general, (Exception,), {}))
            setattr(module, lost, type(lost, (getattr(module, general),), {}))
            theirs[module.__name__] = module
        with mock.patch.dict(sys.modules, theirs):
            qless, reqless = theirs.values()
            for error in (qless.QlessException, reqless.ReqlessError, QlessException):
                with self.assertRaisesRegex(error, "^no$"):
                    raise QlessException("no")
            for error in (qless.LostLockException, qless.QlessException, reqless.LostLockError, LostLockException):
                with self.assertRaisesRegex(error, "^Lost lock on 7$") as caught:
                    raise LostLockException("7")
            self.assertEqual((caught.exception.jid, type(caught.exception).__name__), ("7", "LostLockException"))
            self.assertNotIsInstance(QlessException("no"), qless.LostLockException)

    def test_process_that_exits_after_its_outcome_sends_nothing(self):
        worker = Worker(program="taskvisor.qless", module=None)
        self.addCleanup(worker.end)
        worker.run("qless_sample.Exits", queue="dies")
        self.assertEqual(worker.receive(), (None, None))
        self.assertEqual(worker.wait(), 0)


if __name__ == "__main__":
    unittest.main()
