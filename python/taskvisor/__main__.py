"""``python3 -m taskvisor``: the program that was installed with this package, whatever PATH says."""

from __future__ import annotations

import os
import sys

from .installed import program


def main() -> None:
    """Becomes the program: the process stays the same one."""
    found = program()
    if found is not None:
        os.execv(found, [found, *sys.argv[1:]])
    sys.exit("python3 -m taskvisor: this is the library alone, and the program is not installed with it; "
             "`pip install .` in a clone brings both")


if __name__ == "__main__":
    main()
