"""Rules of the package: which folder may import which, and that imports have no cycle."""

import os
import re
import unittest

import package
import support

#: The folders that the modules of each folder may import; top-level modules import only each other.
FOLDERS = {
    "": set(),
    "protocol": {""},
    "client": {"", "protocol"},
    "worker": {"", "protocol", "client"},
    "qless": {"", "protocol", "client", "worker"},
    "kale": {"", "protocol", "client", "worker"},
    "rq": {"", "protocol", "client", "worker"},
    "api": {"", "protocol", "client"},
    "redis": {"", "protocol", "client", "api"},
    "django": {"", "protocol", "client", "worker", "api", "redis"},
    "sqlalchemy": {"", "client"},
    "testing": {"", "protocol", "client", "worker"},
}


def folder(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FOLDERS else ""


class Shape(unittest.TestCase):
    def test_modules_have_no_import_cycle(self):
        self.assertIsNone(package.circle(package.imports()))

    def test_import_cycle_is_detected(self):
        self.assertEqual(package.circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])

    def test_folders_import_only_folders_below_them(self):
        edges = package.imports()
        self.assertIn("taskvisor.client.putting", edges["taskvisor"])
        self.assertIn("taskvisor.errors", edges["taskvisor.protocol.frames"])
        for module, imported in edges.items():
            for other in imported if module != "taskvisor" else ():
                allowed = FOLDERS[folder(module)] | {folder(module)}
                self.assertIn(folder(other), allowed, f"{module} imports {other}")

    def test_wheel_has_every_folder_and_the_licence(self):
        with open(os.path.join(support.PACKAGE, "pyproject.toml"), encoding="utf-8") as file:
            text = file.read()
        listed = re.findall(r'"(taskvisor[.\w]*)"', text.partition("packages = [")[2].partition("]")[0])
        folders = {os.path.relpath(directory, support.PACKAGE).replace(os.sep, ".")
                   for directory, _, files in os.walk(package.ROOT) if "__init__.py" in files}
        self.assertEqual(set(listed), folders)
        for line in 'license = {text = "MIT"}', 'license-files = ["LICENSE"]', 'taskvisor = ["py.typed"]':
            self.assertIn(line + "\n", text)
        self.assertTrue(os.path.exists(os.path.join(support.PACKAGE, "LICENSE")))

    def test_readme_has_no_link_that_works_in_the_tree_only(self):
        with open(os.path.join(support.PACKAGE, "README.md"), encoding="utf-8") as file:
            for target in re.findall(r"\]\(([^)]*)\)", file.read()):
                self.assertRegex(target, "^(https:|#)")

    def test_every_module_has_a_docstring(self):
        for module, source in package.modules().items():
            self.assertTrue(source.startswith('"""') or module.endswith(".version"), module)


if __name__ == "__main__":
    unittest.main()
