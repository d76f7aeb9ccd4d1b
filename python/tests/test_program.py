"""``python3 -m taskvisor``: finds the program beside the package, and says so where there is none."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import package


class Program(unittest.TestCase):
    def setUp(self):
        self.target = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.target)
        shutil.copytree(package.ROOT, os.path.join(self.target, "taskvisor"))

    def run_module(self):
        command = [sys.executable, "-m", "taskvisor", "--version"]
        # Without what this interpreter may have installed.
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": self.target, "PYTHONUSERBASE": self.target + "/nobody"}
        return subprocess.run(command, env=environment, cwd=self.target, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, check=False)

    @unittest.skipIf(shutil.which("taskvisor", path=os.path.dirname(sys.executable)), "one is installed")
    def test_library_alone_says_how_the_program_comes(self):
        done = self.run_module()
        self.assertEqual((done.returncode, done.stderr), (1, "python3 -m taskvisor: there is no program taskvisor in PATH (pip "
                                                          "install taskvisor brings it)\n"))
        # As pip notes it: of the same version it would install nothing, and say nothing.
        os.mkdir(os.path.join(self.target, "taskvisor-0.1.0.dist-info"))
        with open(os.path.join(self.target, "taskvisor-0.1.0.dist-info", "METADATA"), "w", encoding="utf-8") as file:
            file.write("Metadata-Version: 2.1\nName: taskvisor\nVersion: 0.1.0\n")
        if sys.version_info >= (3, 8):
            self.assertIn("as the library alone is installed (pip install --force-reinstall --no-deps taskvisor brings both",
                          self.run_module().stderr)

    def test_program_beside_the_package_gets_the_arguments_and_the_process(self):
        os.mkdir(os.path.join(self.target, "bin"))
        program = os.path.join(self.target, "bin", "taskvisor")
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho \"$@\"\nexit 5\n")
        os.chmod(program, 0o755)
        done = self.run_module()
        self.assertEqual((done.returncode, done.stdout), (5, "--version\n"), done.stderr)
        # So it is for puts and servers in an environment that is not activated.
        found = subprocess.run([sys.executable, "-c", "from taskvisor.client.program import path\n"
                                "from taskvisor.testing import Server\nprint(path(), Server()._program == path())"],
                               env={"PATH": "/nowhere", "PYTHONPATH": self.target}, cwd=self.target,
                               stdout=subprocess.PIPE, universal_newlines=True, check=True)
        self.assertEqual((os.path.realpath(found.stdout.split()[0]), found.stdout.split()[1]),
                         (os.path.realpath(program), "True"))


if __name__ == "__main__":
    unittest.main()
