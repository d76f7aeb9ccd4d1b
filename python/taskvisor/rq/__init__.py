"""Runs the jobs of RQ: ``taskvisor start -w 8 -q default -m fork -- python3 -m taskvisor.rq -m app.tasks``.

The application brings its own RQ. The page "Coming from RQ" of the documentation says what is the same, and what is
different.
"""
