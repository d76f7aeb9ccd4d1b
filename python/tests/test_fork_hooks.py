"""Which functions run around a fork of a process with one thread. Each case is a process of its own, as nobody can remove
a function that `os.register_at_fork` was given."""

import subprocess
import sys
import unittest

import support

HEAD = """
import logging, os, sys, threading
from taskvisor.worker import fork_hooks
said = []
"""


class ForkHooks(unittest.TestCase):
    def run_script(self, script):
        done = subprocess.run([sys.executable, "-c", HEAD + script], env={"PYTHONPATH": support.PACKAGE}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=support.PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_hooks_of_the_application_run_in_the_order_of_python(self):
        done = self.run_script("""
def register(name):
    os.register_at_fork(before=lambda: said.append(f"before {name}"), after_in_parent=lambda: said.append(f"parent {name}"),
                        after_in_child=lambda: said.append(f"child {name}"))
register("a")
before, in_parent, in_child = fork_hooks.find()
register("b")
before(), in_parent(), in_child()
print(*said, sep=", ")
""")
        self.assertEqual(done.stdout, "before b, before a, parent a, parent b, child a, child b\n")

    def test_hooks_for_other_threads_do_not_run(self):
        self.run_script("""
lock, known = threading.Lock(), threading._active_limbo_lock
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release)
before, in_parent, in_child = fork_hooks.find()
before()
assert not lock.locked()
in_child()
assert threading._active_limbo_lock is known, "threading has renewed its locks"
in_parent()
""")

    def test_a_hook_that_raises_is_named_and_the_next_ones_run(self):
        done = self.run_script("""
def bad():
    raise ValueError("bad hook")
os.register_at_fork(before=bad)
os.register_at_fork(before=lambda: print("the next one"))
os.register_at_fork(before=bad)
before, in_parent, in_child = fork_hooks.find()
before()
""")
        self.assertEqual(done.stdout, "the next one\n")
        self.assertEqual(done.stderr.count("Exception ignored in: <function bad at"), 2)
        self.assertIn("ValueError: bad hook", done.stderr)

    def test_a_template_forks_with_these_hooks(self):
        self.run_script("""
from taskvisor.worker import forking
assert type(forking._hooks[0].__self__) is fork_hooks._ForkHooks, forking._hooks
""")

    def test_python_does_all_of_it_where_the_hooks_are_not_known(self):
        self.run_script("""
import unittest.mock
with unittest.mock.patch.object(sys, "version_info", (3, 99, 0)):
    assert fork_hooks.find() is None
with unittest.mock.patch.object(sys, "abiflags", "t"):
    assert fork_hooks.find() is None
""")


if __name__ == "__main__":
    unittest.main()
