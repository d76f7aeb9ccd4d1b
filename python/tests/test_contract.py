"""One contract of 77 cases: `inline`, `recording` and real workers of the three modes agree on each."""

import os
import shutil
import sys
import tempfile
import unittest
import warnings

import contract_jobs
import real
import support

from taskvisor.testing import inline, recording

MODES = ("prefork", "fork", "coroutine")
#: The fields of a record that a put decides.
PUT = ("class", "data", "priority", "tags", "retries", "time_limit", "retry_delay", "retry_cap")


def put(record):
    """What was put, as the record tells it: without what the broker adds to retries."""
    found = {name: record.get(name) for name in PUT[:6]}
    return {name: value for name, value in found.items() if value is not None}


def end(info):
    """How the job has ended."""
    failure = info.failure if info.state == "failed" else {}
    stages = [(entry["from_queue"], entry["to_queue"], entry.get("result")) for entry in info.history
              if entry["kind"] == "advanced"]
    progress = {name: value for name, value in (info.progress or {}).items() if value is not None}
    if info.state == "complete":
        progress.pop("fraction", None)  # A complete job is at 1.
    return (info.state, info.queue, info.attempt, info.record.get("result"), failure.get("group"), failure.get("message"),
            stages, progress)


@support.some_pythons
class Contract(real.RealTest):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)

    def all_of(self, runs=True):
        """What was put, and how it ended, by the name of the case."""
        found = {}
        shutil.rmtree(self.directory)
        os.mkdir(self.directory)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, begin in contract_jobs.cases(self.directory).items():
                try:
                    id = begin()
                    if runs:
                        id.wait(60)
                    found[name] = put(id.info().record), end(id.info()) if runs else None
                except Exception as error:
                    raise AssertionError(f"{name}: {error!r}") from error
        return found

    def test_all_agree(self):
        with inline():
            wanted = self.all_of()
        self.assertEqual(len(wanted), 77)
        with recording():
            recorded = self.all_of(runs=False)
        for name, (what, _) in wanted.items():
            with self.subTest(case=name, by="recording"):
                self.assertEqual(recorded[name][0], what)
        for mode in MODES:
            if mode == "fork" and sys.version_info < (3, 8):
                continue
            server = self.server("contract_jobs", mode=mode, queues=["default", "stages", "one", "two", "three"])
            found = self.all_of()
            server.stop()
            for name, what in wanted.items():
                with self.subTest(case=name, by=mode):
                    self.assertEqual(found[name], what)


if __name__ == "__main__":
    unittest.main()
