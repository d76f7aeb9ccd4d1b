"""``python3 -m taskvisor``: the program that was installed with this package, whatever PATH says."""

from __future__ import annotations

import os
import sys

from .installed import lacks, program


def main() -> None:
    """Becomes the program: the process stays the same one."""
    found = program()
    if found is not None:
        os.execv(found, [found, *sys.argv[1:]])
    sys.exit(f"python3 -m taskvisor: {lacks()}")


if __name__ == "__main__":
    main()
