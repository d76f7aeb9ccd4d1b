"""A real supervisor for tests, where the program was built."""

import os
import shutil
import unittest

import support

from taskvisor.testing import Server


def program():
    """The program to test, or None."""
    target = os.path.join(os.path.dirname(support.PACKAGE), "target")
    built = [os.path.join(target, kind, "taskvisor") for kind in ("debug", "release")]
    found = [path for path in built if os.path.exists(path)]
    newest = max(found, key=os.path.getmtime) if found else shutil.which("taskvisor")
    return os.environ.get("TASKVISOR_TEST_BINARY") or newest


class RealTest(unittest.TestCase):
    """Tests that need the program."""

    def setUp(self):
        if program() is None:
            self.skipTest("no program taskvisor: cargo build makes it")

    def server(self, *modules, **options):
        """A supervisor whose workers load these modules, or `real_jobs`."""
        server = Server(*(modules or ["real_jobs"]), program=program(), **options)
        server.start()
        self.addCleanup(server.stop)
        return server
