"""``python3 -m taskvisor``: the program that was installed with this package, whatever PATH says."""

from __future__ import annotations

import os
import sys
import sysconfig


def _programs() -> list[str]:
    """Where pip puts programs: beside this interpreter, beside the package (--target, --prefix), and for --user."""
    package = os.path.dirname(os.path.abspath(__file__))
    site = os.path.dirname(package)
    return [
        os.path.join(sysconfig.get_path("scripts"), "taskvisor"),
        os.path.join(site, "bin", "taskvisor"),
        os.path.join(site, "..", "..", "..", "bin", "taskvisor"),
        os.path.join(sysconfig.get_path("scripts", "posix_user"), "taskvisor"),
    ]


def main() -> None:
    """Becomes the program: the process stays the same one."""
    for program in _programs():
        if os.access(program, os.X_OK):
            os.execv(program, [program, *sys.argv[1:]])
    sys.exit("python3 -m taskvisor: this is the library alone, and the program is not installed with it; "
             "`pip install .` in a clone brings both")


if __name__ == "__main__":
    main()
