"""The plugin for pytest, in a pytest of its own."""

import os
import subprocess
import sys
import tempfile
import unittest

import real
import rq_installed
import support

TESTS = """
import pytest
import real_jobs
from taskvisor import PutError

with pytest.raises(PutError, match="this is a test under pytest"):
    real_jobs.add.put(0)

@pytest.fixture(scope="session", autouse=True)
def around_all():
    yield
    with pytest.raises(PutError, match="this is a test under pytest"):
        real_jobs.add.put(3)

def test_inline(taskvisor_inline):
    assert real_jobs.add.put(1, 2).result() == 3
    taskvisor_inline.assert_put(real_jobs.add, 1, 2)

def test_recording(taskvisor_recording):
    real_jobs.add.put(1, 2)
    assert len(taskvisor_recording.jobs) == 1

def test_server(taskvisor_server):
    id = real_jobs.puts.put(7)
    taskvisor_server.drain()
    assert id.info().state == "complete"

def test_default_directories():
    with pytest.raises(PutError, match="this is a test under pytest"):
        real_jobs.add.put(1)
"""


@unittest.skipIf(sys.version_info < (3, 8), "pytest 8 needs Python 3.8")
class Plugin(real.RealTest):
    def test_fixtures_are_there_and_the_default_directories_are_not_touched(self):
        version = "8.3.5"
        site = rq_installed.site(version, "pytest")
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "test_it.py"), "w") as file:
                file.write(TESTS)
            with open(os.path.join(directory, "conftest.py"), "w") as file:
                file.write(TESTS.partition("@")[0])
            environment = {name: value for name, value in os.environ.items() if not name.startswith("TASKVISOR_")}
            environment.update(PYTHONPATH=f"{support.PACKAGE}:{support.HERE}:{site}", TASKVISOR_PROGRAM=real.program())
            # As the entry point of the installed package does.
            command = [sys.executable, "-m", "pytest", "-q", "-p", "taskvisor.testing.pytest_plugin", "-p", "no:cacheprovider"]
            done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout.decode())
        self.assertIn(b"4 passed", done.stdout)

    def test_entry_point_names_the_plugin(self):
        with open(os.path.join(support.PACKAGE, "pyproject.toml"), encoding="utf-8") as file:
            self.assertIn('[project.entry-points.pytest11]\ntaskvisor = "taskvisor.testing.pytest_plugin"\n', file.read())


if __name__ == "__main__":
    unittest.main()
