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
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        print(f"{failed}: {error}: is it spelled right? {hint}", file=sys.stderr)
    else:
        traceback.print_exc()
        print(failed, file=sys.stderr)
