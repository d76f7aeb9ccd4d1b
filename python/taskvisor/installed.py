"""Finds the program that was installed with this package, whatever PATH says. Imported only when it is needed."""

from __future__ import annotations

import os
import sysconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional


def _programs() -> list[str]:
    """Where pip puts programs: beside this interpreter, beside the package (--target, --prefix), and for --user."""
    package = os.path.dirname(os.path.abspath(__file__))
    site = os.path.dirname(package)
    found = [
        os.path.join(sysconfig.get_path("scripts"), "taskvisor"),
        os.path.join(site, "bin", "taskvisor"),
        os.path.join(site, "..", "..", "..", "bin", "taskvisor"),
    ]
    try:
        found.append(os.path.join(sysconfig.get_path("scripts", "posix_user"), "taskvisor"))
    except (AttributeError, KeyError):
        pass  # An old Python without a directory for users.
    return found


def lacks() -> str:
    """That there is no program, and the command that brings it."""
    try:
        from importlib.metadata import distribution

        distribution("taskvisor")
    except Exception:  # Not installed by pip, or by a Python that cannot tell.
        return "there is no program taskvisor in PATH (pip install taskvisor brings it)"
    # Of the same version, pip would install nothing and say nothing.
    return ("there is no program taskvisor in PATH, as the library alone is installed (pip install --force-reinstall --no-deps "
            "taskvisor brings both, to Linux on x86-64)")


def program() -> Optional[str]:
    """The path of the program; None if this is the library alone."""
    return next((path for path in _programs() if os.access(path, os.X_OK)), None)
