"""Says why a module that people have named could not be loaded."""

from __future__ import annotations

import os
import sys
import traceback


def print_failure(program: str, name: str, hint: str) -> None:
    """Prints why `name` was not loaded, while the exception is handled. A module that does not exist takes one line: the
    trace shows errors inside of modules. `hint` says where modules are looked for."""
    error = sys.exc_info()[1]
    failed = f"{program}: failed to load {name} from {os.getcwd()}"
    is_file = name.endswith(".py") or "/" in name
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.") or is_file and name[:1] == ".":
        meant = (name[:-3] if name.endswith(".py") else name).strip("./").replace("/", ".")
        # A shell completes names of files.
        asked = f"that is a file; name the module as import does: {meant}." if is_file and meant else "is it spelled right?"
        print(f"{failed}: {error}: {asked} {hint}", file=sys.stderr)
    else:
        traceback.print_exc()
        print(failed, file=sys.stderr)
