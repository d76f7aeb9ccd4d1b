"""The program that the supervisor starts: ``python3 -m taskvisor.worker MODULE… [--async]``."""

from __future__ import annotations

import sys

from .start import main

if __name__ == "__main__":
    sys.exit(main())
