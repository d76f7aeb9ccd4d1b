"""The shape of the package: which folder may import which, and that no modules import each other in a circle."""

import unittest

import package

#: What the modules of each folder may import besides their own; those beside the folders import one another only.
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
    def test_no_modules_import_each_other_in_a_circle(self):
        self.assertIsNone(package.circle(package.imports()))

    def test_a_circle_would_be_found(self):
        self.assertEqual(package.circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])

    def test_each_folder_imports_what_is_below_it_only(self):
        edges = package.imports()
        self.assertIn("taskvisor.client.putting", edges["taskvisor"])
        self.assertIn("taskvisor.errors", edges["taskvisor.protocol.frames"])
        for module, imported in edges.items():
            for other in imported if module != "taskvisor" else ():
                allowed = FOLDERS[folder(module)] | {folder(module)}
                self.assertIn(folder(other), allowed, f"{module} imports {other}")

    def test_every_module_says_what_it_is_for(self):
        for module, source in package.modules().items():
            self.assertTrue(source.startswith('"""') or module.endswith(".version"), module)


if __name__ == "__main__":
    unittest.main()
