"""The template of the mode fork. The test process plays the keeper, and so is the parent of all processes."""

import errno
import os
import struct
import sys
import tempfile
import threading
import unittest
from unittest import mock

from support import HERE, PACKAGE, Keeper, WorkerTest

from taskvisor.worker import forking
from taskvisor.worker import inherited as looked_at


def setUpModule():
    # A subreaper like the keeper: orphans below become its children.
    forking.set_subreaper(True)


def tearDownModule():
    forking.set_subreaper(False)


class Cgroup:
    """A cgroup below that of the test process. Skips the test where it cannot be made."""

    def __enter__(self):
        try:
            with open("/proc/self/cgroup") as lines:
                own = next(line[3:].strip() for line in lines if line.startswith("0::"))
            with open("/proc/self/mounts") as lines:
                mount = next(fields[1] for fields in map(str.split, lines) if fields[2] == "cgroup2")
            self.path = os.path.join(mount, own.lstrip("/"), f"tv-test-{os.getpid()}")
            os.mkdir(self.path)
        except (StopIteration, OSError):
            raise unittest.SkipTest("no cgroup v2 to write to") from None
        self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        return self

    def inhabitants(self):
        with open(os.path.join(self.path, "cgroup.procs")) as lines:
            return [int(line) for line in lines]

    def __exit__(self, *_):
        os.close(self.descriptor)
        os.rmdir(self.path)


def stacks(pid):
    """The identity of the file in memory for stacks; None if there is none."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{name}") == "/memfd:taskvisor-stacks (deleted)":
            return os.stat(f"/proc/{pid}/fd/{name}").st_ino
    return None


def inherited():
    """The descriptors that the test process inherited."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 3 and os.get_inheritable(int(name)):
                found.add(name)
        except OSError:
            pass
    return found


@unittest.skipIf(sys.version_info < (3, 8), "the mode fork needs Python 3.8")
class Template(WorkerTest):
    def template(self, **options):
        self.keeper = Keeper()
        self.addCleanup(self.keeper.close)
        template = self.worker(mode="fork", fork_socket=self.keeper.theirs, **options)
        self.keeper.theirs.close()
        return template

    def child(self):
        child = self.keeper.fork()
        self.addCleanup(child.close)
        return child

    def test_hello_says_template(self):
        self.assertIs(self.template().hello["template"], True)

    def test_a_child_runs_one_job_and_exits_0(self):
        self.template()
        child = self.child()
        self.assertEqual(child.outcome("add", [1, 2]),
                         {"job": "j1", "fence": 7, "outcome": "complete", "result": 3})
        self.assertEqual(child.receive(), (None, None))
        self.assertEqual(child.wait(), 0)

    def test_each_child_has_a_file_of_its_own_for_its_stacks(self):
        template = self.template()
        children = self.child(), self.child()
        for child in children:
            child.run("wait")
            self.assertEqual(child.receive()[0], "progress")
        files = [stacks(process.pid) for process in (template, *children)]
        self.assertEqual(len({*files, None}), 4, files)

    def test_application_that_handles_the_signal_for_stacks_is_not_sent_it(self):
        with tempfile.TemporaryDirectory() as path:
            with open(os.path.join(path, "urgent.py"), "w", encoding="utf-8") as module:
                module.write("import signal\nsignal.signal(signal.SIGURG, lambda *_: None)\nfrom sample import *\n")
            worker = self.worker(module="urgent", env={"PYTHONPATH": f"{PACKAGE}:{HERE}:{path}"})
        self.assertIsNone(stacks(worker.pid))

    def check_identity(self, template, **options):
        child = self.child()
        found = child.outcome("identity")["result"]
        self.assertEqual(found["pid"], child.pid)
        self.assertEqual(found["native"], child.pid)
        self.assertEqual(found["parent"], os.getpid())
        self.assertEqual(found["session"], child.pid)
        self.assertEqual((found["pdeathsig"], found["subreaper"], found["threads"]), (9, 1, 1))
        files = {name: target for name, target in found["files"].items() if name not in inherited()}
        self.assertEqual(files.pop("0"), "/dev/null")
        sockets = [name for name, target in files.items() if target.startswith("socket:")]
        self.assertEqual(sockets, ["3"])
        # Besides the four there are both ends of the wake-up pipe for signals.
        pipes = [target for target in files.values() if target.startswith("pipe:")]
        self.assertEqual((len(pipes), len(set(pipes))), (2, 1), files)
        self.assertLessEqual(len(files), 6, files)
        self.assertEqual(child.wait(), 0)

    def test_child_belongs_to_the_keeper_with_session_and_death_signal(self):
        self.check_identity(self.template())

    def test_python_knows_the_thread_id_of_a_child(self):
        self.template()
        child = self.child()
        self.assertEqual(child.outcome("identity")["result"]["noted"], child.pid)

    def test_child_belongs_to_the_keeper_even_if_the_template_is_a_subreaper(self):
        self.check_identity(self.template(subreaper=True))

    def test_child_of_an_application_with_threads_belongs_to_the_keeper(self):
        template = self.template(module="sample_with_thread", subreaper=True)
        for _ in range(5):
            self.check_identity(template)

    def test_template_warns_of_shared_threads_and_sockets_at_the_first_fork(self):
        template = self.template(module="sample_shares")
        self.assertEqual(self.child().outcome("add", [1])["result"], 2)
        name, fields = template.receive()
        self.assertEqual(name, "warning")
        self.assertRegex(fields["text"], "threads, which do not run in a job.*: Thread-1.*, beat\n")
        self.assertRegex(fields["text"], r"sockets, .*: inet 127\.0\.0\.1:[0-9]+ \(descriptor [0-9]+\)\n")
        self.assertRegex(fields["text"], "random generators, .*: sample_shares.numbers, sample_shares.Service.numbers\n")
        self.assertIn("os.register_at_fork", fields["text"])
        # The warning is sent once, and neither the template nor a job prints it.
        child = self.child()
        self.assertEqual(child.outcome("add", [1])["result"], 2)
        template.send("ping")
        self.assertEqual(template.receive(), ("pong", {}))
        self.assertEqual((template.stderr(), child.stderr()), ("", ""))

    def test_template_does_not_warn_of_objects_recreated_after_fork(self):
        for module in ("sample", "sample_shares_nothing"):
            template = self.template(module=module)
            self.assertEqual(self.child().outcome("add", [1])["result"], 2)
            template.send("ping")
            self.assertEqual(template.receive(), ("pong", {}))
            self.assertEqual(template.stderr(), "")

    def test_template_does_not_warn_of_a_thread_that_ends_during_the_check(self):
        look = looked_at.Inherited()
        # The kernel lists a thread that has ended before its name is read; no process has this number.
        # Other tests may have left threads in this process.
        with mock.patch.object(looked_at.threading, "enumerate", return_value=[threading.main_thread()]), \
                mock.patch.object(looked_at.os, "listdir", return_value=[str(2 ** 22 + 1)]):
            self.assertEqual(looked_at.threads(look._main), [])

    def test_child_is_forked_into_its_cgroup(self):
        for module in ("sample", "sample_with_thread"):
            self.template(module=module)
            with Cgroup() as cgroup:
                child = self.keeper.fork(cgroup.descriptor)
                self.assertEqual(cgroup.inhabitants(), [child.pid])
                found = child.outcome("identity")["result"]
                self.assertEqual((found["pid"], found["native"], found["parent"]), (child.pid, child.pid, os.getpid()))
                self.assertNotIn(cgroup.path, found["files"].values())
                self.assertEqual(child.wait(), 0)
                child.close()

    def test_child_that_may_not_be_forked_into_its_cgroup_is_forked_outside(self):
        # Not a cgroup directory: the kernel refuses it, as it refuses a foreign cgroup.
        for module in ("sample", "sample_with_thread"):
            template = self.template(module=module)
            before = os.listdir(f"/proc/{template.pid}/fd")
            elsewhere = os.open("/", os.O_RDONLY)
            self.addCleanup(os.close, elsewhere)
            child = self.keeper.fork(elsewhere)
            self.assertEqual(child.outcome("add", [1, 2])["result"], 3)
            self.assertEqual(child.wait(), 0)
            child.close()
            if module == "sample_with_thread":
                self.assertEqual(template.receive()[0], "warning")
            template.send("ping")
            self.assertEqual(template.receive(), ("pong", {}))
            self.assertEqual(os.listdir(f"/proc/{template.pid}/fd"), before)

    def test_two_hundred_forks_leave_no_zombie_and_no_descriptor(self):
        template = self.template()
        before = os.listdir(f"/proc/{template.pid}/fd")
        for round_number in range(200):
            child = self.keeper.fork()
            if round_number % 20 == 0:
                self.assertEqual(child.outcome("sample.echo", [round_number])["result"], round_number)
            else:
                child.send("shutdown")
            child.close()
            self.assertEqual(child.wait(), 0)
        # Once the template answers it has closed the descriptors of the last child.
        template.send("ping")
        self.assertEqual(template.receive(), ("pong", {}))
        with open(f"/proc/{template.pid}/task/{template.pid}/children") as children:
            self.assertEqual(children.read(), "")
        self.assertEqual(os.listdir(f"/proc/{template.pid}/fd"), before)

    def test_output_of_a_child_goes_to_its_own_files(self):
        template = self.template()
        children = [self.child(), self.child()]
        for number, child in enumerate(children):
            child.run("say", [f"child {number}"])
        for number, child in enumerate(children):
            child.done()
            self.assertEqual(child.stdout(), f"child {number}\nno newline")
            self.assertIn(f"logged child {number}", child.stderr())
            self.assertEqual(child.wait(), 0)
        self.assertEqual((template.stdout(), template.stderr()), ("", ""))

    def test_children_have_random_numbers_of_their_own_and_run_fork_hooks(self):
        for module in ("sample", "sample_with_thread"):
            self.template(module=module)
            self.assertNotEqual(*[self.child().outcome("random")["result"] for _ in range(2)])
            hooks = self.child().outcome("hooks")["result"]
            forks = 1 if module == "sample" else 2
            self.assertEqual(hooks, ["before", "parent"] * 2 + ["before", "child"] * forks)

    def test_threads_event_loops_and_programs_work_in_a_child(self):
        self.template()
        self.assertEqual(self.child().outcome("threads_work")["result"], ["j1", 0])
        self.assertEqual(self.child().outcome("thread_job")["result"], ["j1", "j1"])

    def test_sigterm_without_a_job_ends_a_child_with_0_and_spares_the_template(self):
        self.template()
        child = self.child()
        os.kill(child.pid, 15)
        self.assertEqual(child.wait(), 0)
        self.assertEqual(self.child().outcome("add", [1])["result"], 2)

    def test_sigterm_interrupts_the_job_of_a_child(self):
        self.template()
        child = self.child()
        child.run("wait")
        child.receive()
        os.kill(child.pid, 15)
        self.assertEqual(child.done()["error"]["group"], "Interrupted")
        self.assertEqual(child.wait(), 0)
        self.assertRegex(child.stderr(), r"The job was here:\n  File .*, in wait\n    (time.sleep|progress)\(.*\)\n$")

    def test_child_exits_when_its_channel_is_closed(self):
        self.template()
        child = self.keeper.fork()
        child.close()
        self.assertEqual(child.wait(), 0)

    def test_children_outlive_their_template(self):
        template = self.template()
        child = self.child()
        child.run("wait", [True])
        child.receive()
        template.kill(9)
        template.wait()
        os.kill(child.pid, 15)
        self.assertEqual(child.done()["result"], "ended in peace")
        self.assertEqual(child.wait(), 0)

    def test_failed_fork_is_reported_with_its_errno(self):
        for module in ("sample_cannot_fork", "sample_cannot_fork_twice"):
            self.template(module=module)
            self.keeper.ask().close()
            self.assertEqual(self.keeper.receive()[0], struct.pack("<QI", 1, errno.EAGAIN))

    def test_a_template_ends_with_0_on_sigterm_shutdown_and_end_of_file(self):
        template = self.template()
        template.kill()
        self.assertEqual(template.wait(), 0)
        template = self.template()
        template.send("shutdown")
        self.assertEqual(template.wait(), 0)
        template = self.template()
        template.hang_up()
        self.assertEqual(template.wait(), 0)
        template = self.template()
        self.keeper.close()
        self.assertEqual(template.wait(), 0)


if __name__ == "__main__":
    unittest.main()
