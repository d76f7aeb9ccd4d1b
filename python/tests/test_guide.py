"""The habits of other libraries, of which docs/python-guide.md has a list: each example runs with a real supervisor."""

import os
import subprocess
import sys
import tempfile
import unittest

import real
import rq_installed
import support

EXAMPLES = os.path.join(support.PACKAGE, "..", "examples", "python")
#: What the examples import, with the first Python that has these versions.
PACKAGES = {"flask": "3.1.2", "fastapi": "0.121.0", "httpx": "0.28.1", "sqlalchemy": "2.0.43"}


def examples():
    """The texts of the examples by the names of their modules."""
    found = {}
    for name in sorted(os.listdir(EXAMPLES)):
        if name.endswith(".py"):
            with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
                found[name[:-3]] = file.read()
    return found


@support.some_pythons
class Habits(real.RealTest):
    def test_each_example_runs(self):
        if not os.path.exists(EXAMPLES):
            self.skipTest("the examples are not in a package")
        if sys.version_info < (3, 10):
            self.skipTest("the frameworks of the examples need Python 3.10")
        sites = [rq_installed.site(version, package) for package, version in PACKAGES.items()]
        django = sys.version_info >= (3, 12)
        found = examples()
        self.assertEqual(len(found), 10, sorted(found))
        with tempfile.TemporaryDirectory() as directory:
            for name, text in found.items():
                with open(os.path.join(directory, f"{name}.py"), "w", encoding="utf-8") as file:
                    file.write(text)
            if not django:
                del found["in_django"]
            else:
                sites.append(rq_installed.site("6.1.3", "django"))
            before = list(sys.path)
            self.addCleanup(sys.path.__setitem__, slice(None), before)
            sys.path += [directory, *sites]
            server = self.server(*(name for name in found if name != "in_django"),
                                 queues=["default", "mail", "reports", "images", "nightly"])
            path = os.pathsep.join([support.PACKAGE, directory, *sites])
            for name in found:
                with self.subTest(example=name):
                    done = subprocess.run([sys.executable, os.path.join(directory, f"{name}.py")], timeout=120,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                                          env={**os.environ, "PYTHONPATH": path}, cwd=directory)
                    self.assertEqual(done.returncode, 0, done.stdout + server.log()[-2000:])


class Bench(real.RealTest):
    def test_figures_are_printed_beside_their_goals(self):
        done = subprocess.run([sys.executable, os.path.join(support.PACKAGE, "bench"), "inline", "memory"],
                              stdout=subprocess.PIPE, universal_newlines=True,
                              env={**os.environ, "TASKVISOR_PROGRAM": real.program()})
        self.assertIn(done.returncode, (0, 1))
        self.assertRegex(done.stdout, r"goal +here\ninline.* 60 +[\d.]+.*\nas_completed of 10,000.* 20 +[\d.]+.*\n")


if __name__ == "__main__":
    unittest.main()
