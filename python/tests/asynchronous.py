"""Makes the routes of `AsyncClient` of those of `Client`."""

import os
import re

import support

API = os.path.join(support.PACKAGE, "taskvisor", "api")
NAMES = ("jobs", "queues", "service")


def made(name):
    """The text of the module with coroutines."""
    with open(os.path.join(API, f"{name}.py"), encoding="utf-8") as source:
        text = source.read()
    text = text.replace(f"`async_{name}` is made of this file.", f"Made of `{name}` by the tests.")
    text = re.sub(r"\nclass (\w+)\(Asking\)", r"\nclass Async\1(AsyncAsking)", text).replace("import Asking,", "import AsyncAsking,")
    text = text.replace("    def ", "    async def ")
    text = re.sub(r"return (self\._\w+\(.*\))(\[0\])\n", r"return (await \1)\2\n", text)
    text = re.sub(r"(?<!await )self\._(ask|reply|text|is_good|of_pools)\(", r"await self._\1(", text)
    # What is continued on the next line stands six letters further to the right.
    lines = text.split("\n")
    inside = False
    for number, line in enumerate(lines):
        if line.startswith("    async def "):
            inside = not line.endswith(":")
        elif inside:
            lines[number], inside = "      " + line, not line.endswith(":")
    return "\n".join(lines)


def path(name):
    """Where it is."""
    return os.path.join(API, f"async_{name}.py")


if __name__ == "__main__":
    for name in NAMES:
        with open(path(name), "w", encoding="utf-8") as target:
            target.write(made(name))
