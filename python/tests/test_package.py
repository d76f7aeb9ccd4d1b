"""Rules of the package: which folder may import which, and that imports have no cycle."""

import unittest

import package

#: The folders that the modules of each folder may import; top-level modules import only each other.
FOLDERS = {
    "": set(),
    "protocol": {""},
    "client": {"", "protocol"},
    "worker": {"", "protocol", "client"},
    "qless": {"", "protocol", "client", "worker"},
    "kale": {"", "protocol", "client", "worker"},
    "rq": {"", "protocol", "client", "worker"},
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

    def test_every_module_has_a_docstring(self):
        for module, source in package.modules().items():
            self.assertTrue(source.startswith('"""') or module.endswith(".version"), module)


if __name__ == "__main__":
    unittest.main()
