"""Holds the stand-in for kale, and what taskvisor uses of kale, against the names and signatures of the real package."""

import ast
import glob
import importlib
import inspect
import json
import os
import sys
import types
import unittest

from support import HERE, PACKAGE

STANDIN = os.path.join(HERE, "kale_standin")
#: What the names in the modules of `taskvisor.kale` stand for.
MEANINGS = {
    "settings": "kale.Settings", "klass": "kale.task.Task", "task_inst": "kale.task.Task", "task": "kale.task.Task",
    "message": "kale.message.KaleMessage", "worker": "kale.worker.Worker", "_worker": "kale.worker.Worker",
    "kale_worker": "kale.worker", "of_kale": "kale.publisher.Publisher", "talk": "kale.sqs.SQSTalk",
    "_queues": "kale.queue_info.QueueInfo", "queue": "kale.queue_info.TaskQueue", "queue_info": "kale.queue_info",
    "exceptions": "kale.exceptions", "utils": "kale.utils",
}

with open(os.path.join(HERE, "ndkale-surface.json"), encoding="utf-8") as file:
    REAL = json.load(file)


def described(module, name, value):
    """A name as `ndkale-surface.json` describes it."""
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__} {inspect.signature(value.__func__)}"
    if isinstance(value, types.FunctionType):
        foreign = f" of {value.__module__}" if value.__module__ != module else ""
        return f"function{foreign or ' ' + str(inspect.signature(value))}"
    if isinstance(value, type):
        return f"class of {value.__module__}"
    if name == "EXCEPTION_LIST" or isinstance(value, (bool, int, str, type(None))):
        return f"{type(value).__name__} = {repr(value)[:60]}"
    return f"object of {type(value).__module__}.{type(value).__name__}"


def real_names(path):
    """What the real package has at a path: the names of a module; those of a class with its bases and of its objects."""
    if path in REAL["modules"]:
        return set(REAL["modules"][path])
    module, _, name = path.rpartition(".")
    facts = REAL["modules"][module][name]
    inherited = [real_names(base) for base in facts["bases"] if base.startswith("kale.")]
    return set().union(facts, REAL["instances"].get(path, ()), *inherited) - {"bases"}


class StandIn(unittest.TestCase):
    """Everything of the stand-in is in the real package, with the same signature or value."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        before = {"path": list(sys.path), "modules": set(sys.modules)}
        sys.path.insert(0, STANDIN)
        try:
            paths = glob.glob(os.path.join(STANDIN, "kale", "*.py"))
            names = [os.path.basename(path)[:-3] for path in paths]
            cls.modules = {name: importlib.import_module(name) for name in
                           ("kale" if name == "__init__" else f"kale.{name}" for name in names)}
            cls.settings = cls.modules["kale"].settings
        finally:
            sys.path[:] = before["path"]
            for name in set(sys.modules) - before["modules"]:
                del sys.modules[name]

    def names(self, module):
        """The names of a module of the stand-in that are its own, or of kale."""
        for name, value in vars(module).items():
            ours = name.startswith("__") or name in ("standin", "take") or name in self.modules
            library = isinstance(value, types.ModuleType) and not value.__name__.startswith("kale")
            if not ours and not library and f"{module.__name__}.{name}" not in self.modules:
                yield name, value

    def test_every_name_is_in_the_real_package_with_the_same_signature(self):
        self.assertIn("kale.worker", self.modules)
        for path, module in self.modules.items():
            self.assertIn(path, REAL["modules"])
            for name, value in self.names(module):
                real = REAL["modules"][path].get(name)
                if isinstance(value, type) and value.__module__ == path:
                    self.check_class(path, value, real)
                else:
                    self.assertEqual(described(path, name, value), real, f"{path}.{name}")

    def check_class(self, path, kind, real):
        where = f"{path}.{kind.__name__}"
        self.assertIsInstance(real, dict, where)
        self.assertEqual([f"{base.__module__}.{base.__qualname__}" for base in kind.__bases__], real["bases"], where)
        for name, value in vars(kind).items():
            if not name.startswith("__") or name == "__init__":
                self.assertEqual(described(path, name, value), real.get(name), f"{where}.{name}")

    def test_the_settings_are_an_object_with_the_names_of_the_real_one(self):
        self.assertNotIsInstance(self.settings, types.ModuleType)
        self.assertEqual(type(self.settings).__name__, "Settings")
        self.assertLessEqual(set(vars(self.settings)), real_names("kale.Settings"))

    def test_objects_have_only_attributes_of_real_ones(self):
        task = self.modules["kale.task"].Task()
        message = self.modules["kale.message"].KaleMessage(task_class=type(task), payload={"args": (), "kwargs": {}})
        for made in task, message, self.modules["kale.queue_info"].TaskQueue():
            path = f"{type(made).__module__}.{type(made).__name__}"
            self.assertLessEqual(set(vars(made)), real_names(path), path)


class Used(unittest.TestCase):
    """Everything that taskvisor uses of kale is in the real package."""

    def test_every_name_that_is_used_is_in_the_real_package(self):
        used = set()
        for path in glob.glob(os.path.join(PACKAGE, "taskvisor", "kale", "*.py")):
            with open(path, encoding="utf-8") as file:
                nodes = list(ast.walk(ast.parse(file.read())))
            for node in nodes:
                if isinstance(node, ast.Attribute):
                    base = node.value
                    meaning = MEANINGS.get(getattr(base, "id", None) or getattr(base, "attr", None))
                    used.add((meaning or imported(base), node.attr))
        used = {(path, name) for path, name in used if path and not name.startswith("__")}
        self.assertLess({("kale", "settings"), ("kale.task", "Task"), ("kale.Settings", "QUEUE_CONFIG"),
                         ("kale.worker.Worker", "_on_task_failed"), ("kale.task.Task", "handle_failure")}, used)
        for path, name in sorted(used):
            self.assertIn(name, real_names(path), f"{path} has no {name}")


def imported(node):
    """The module of kale that `importlib.import_module("kale.…")` imports, if that is what the code says."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "import_module":
        name = ast.literal_eval(node.args[0]) if not isinstance(node.args[0], ast.Name) else ""
        return name if name.split(".")[0] == "kale" else None
    return None


if __name__ == "__main__":
    unittest.main()
