"""The modules of the package and their imports, including those in functions and for type checkers."""

import ast
import os

import support

ROOT = os.path.join(support.PACKAGE, "taskvisor")


def modules():
    """From the name of each module to its source."""
    found = {}
    for directory, _, files in os.walk(ROOT):
        for file in files:
            if file.endswith(".py"):
                path = os.path.join(directory, file)
                parts = os.path.relpath(path, support.PACKAGE)[:-len(".py")].split(os.sep)
                with open(path, encoding="utf-8") as source:
                    found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = source.read()
    return found


def imports():
    """From the name of each module to the modules of the package that it imports."""
    sources = modules()
    packages = {name.rpartition(".")[0] for name in sources} | {"taskvisor"}
    found = {}
    for name, source in sources.items():
        found[name] = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                found[name].update(alias.name for alias in node.names if alias.name in sources)
            if isinstance(node, ast.ImportFrom):
                here = name.split(".") if name in packages else name.split(".")[:-1]
                above = here[:len(here) - node.level + 1] if node.level else []
                target = ".".join(above + (node.module.split(".") if node.module else []))
                for alias in node.names:
                    inner = f"{target}.{alias.name}"
                    if inner in sources or target in sources:
                        found[name].add(inner if inner in sources else target)
    return found


def circle(edges):
    """A cycle in a graph as a list of its nodes, or None."""
    done = set()

    def search(node, path):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        for other in sorted(edges.get(node, ())):
            found = search(other, path + [node])
            if found:
                return found
        done.add(node)
        return None

    return next(filter(None, (search(node, []) for node in sorted(edges))), None)
