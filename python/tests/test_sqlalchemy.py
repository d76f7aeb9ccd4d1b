"""`taskvisor.sqlalchemy.on_commit`: jobs are put with the commit, and with no other end of a transaction."""

import sys
import unittest

import real_jobs
import rq_installed
import support

from taskvisor import PutError
from taskvisor.testing import recording

VERSION = "2.0.43"


class OnCommit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if sys.version_info < (3, 9):
            raise unittest.SkipTest("tested from Python 3.9 on")
        site = rq_installed.site(VERSION, "sqlalchemy")
        if site not in sys.path:
            sys.path.append(site)

    def setUp(self):
        from sqlalchemy import create_engine, text
        from sqlalchemy.orm import Session

        self.session = Session(create_engine("sqlite://"))
        self.addCleanup(self.session.close)
        self.text = text

    def put(self):
        return [job.data["a"] for job in self.jobs.jobs]

    def test_jobs_are_put_with_the_commit_and_once(self):
        from taskvisor.sqlalchemy import on_commit

        with recording() as self.jobs:
            self.session.execute(self.text("create table t (a int)"))
            on_commit(self.session, real_jobs.add.prepare(1), real_jobs.add.prepare(2))
            self.assertEqual(self.put(), [])
            self.session.commit()
            self.assertEqual(self.put(), [1, 2])
            self.session.commit()
            on_commit(self.session, real_jobs.add.prepare(3))
            self.session.commit()
            self.assertEqual(self.put(), [1, 2, 3])

    def test_rollback_drops_them(self):
        from taskvisor.sqlalchemy import on_commit

        with recording() as self.jobs:
            on_commit(self.session, real_jobs.add.prepare(1))
            self.session.rollback()
            self.session.commit()
            with self.assertRaises(KeyError), self.session.begin():
                on_commit(self.session, real_jobs.add.prepare(2))
                raise KeyError
            self.session.execute(self.text("select 1"))
            self.session.commit()
            self.assertEqual(self.put(), [])

    def test_what_is_no_job_to_put_is_refused_before_the_commit(self):
        from taskvisor.sqlalchemy import on_commit

        with recording() as self.jobs:
            on_commit(self.session, real_jobs.add.prepare(1))
            for wrong in (real_jobs.add, real_jobs.add.put(2), lambda: None):
                with self.subTest(wrong=wrong), self.assertRaisesRegex(TypeError, "not queued yet, as send.prepare"):
                    on_commit(self.session, real_jobs.add.prepare(3), wrong)
            self.session.commit()
            self.assertEqual(self.put(), [2, 1])

    def test_transaction_that_ends_without_a_commit_drops_them(self):
        from taskvisor.sqlalchemy import on_commit

        with recording() as self.jobs:
            for number, end in enumerate((self.session.close, self.session.reset, self.session.invalidate)):
                on_commit(self.session, real_jobs.add.prepare(number))
                with self.subTest(end=end.__name__):
                    end()
                    on_commit(self.session, real_jobs.add.prepare(10 + number))
                    self.session.commit()
                    self.assertEqual(self.put(), [10 + earlier for earlier in range(number + 1)])

    def test_savepoint_that_is_closed_drops_its_own_only(self):
        from taskvisor.sqlalchemy import on_commit

        with recording() as self.jobs:
            on_commit(self.session, real_jobs.add.prepare(1))
            savepoint = self.session.begin_nested()
            on_commit(self.session, real_jobs.add.prepare(2))
            savepoint.close()
            self.session.commit()
            self.assertEqual(self.put(), [1])

    def test_savepoint_drops_its_own_only(self):
        from taskvisor.sqlalchemy import on_commit

        with recording() as self.jobs:
            on_commit(self.session, real_jobs.add.prepare(1))
            with self.assertRaises(KeyError), self.session.begin_nested():
                on_commit(self.session, real_jobs.add.prepare(2))
                with self.session.begin_nested():
                    on_commit(self.session, real_jobs.add.prepare(3))
                raise KeyError
            with self.session.begin_nested():
                on_commit(self.session, real_jobs.add.prepare(4))
            self.assertEqual(self.put(), [])
            self.session.commit()
            self.assertEqual(self.put(), [1, 4])

    def test_put_that_fails_is_raised_by_the_commit(self):
        from taskvisor.sqlalchemy import on_commit

        with recording():
            on_commit(self.session, real_jobs.add.options(depends=["nobody"]).prepare(1))
            with self.assertRaises(PutError):
                self.session.commit()
            self.session.rollback()
            self.session.execute(self.text("select 1"))


if __name__ == "__main__":
    support.unittest.main()
