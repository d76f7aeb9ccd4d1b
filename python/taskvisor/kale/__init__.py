"""Runs the tasks of kale: ``taskvisor start -w 8 -q mail -- python3 -m taskvisor.kale -m app.tasks``.

The application brings its own kale. The page "Coming from kale" of the documentation says what is the same, and what is
different.
"""

from .publishing import Publisher

__all__ = ["Publisher"]
