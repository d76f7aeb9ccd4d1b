"""The worker with one job at a time."""

import os
import signal
import sys
import tempfile
import time
import unittest

from support import WorkerTest


class Results(WorkerTest):
    @classmethod
    def setUpClass(cls):
        from support import Worker
        cls.shared = Worker()

    @classmethod
    def tearDownClass(cls):
        cls.shared.end()

    def test_hello_names_the_protocol_and_the_classes_with_their_settings(self):
        hello = self.shared.hello
        self.assertEqual(hello["protocol"], 1)
        self.assertTrue(hello["sdk"].startswith("taskvisor-python "))
        self.assertEqual(hello["classes"]["add"],
                         {"time_limit": 60, "retries": 3, "retry_delay": 1, "retry_cap": 900})
        self.assertEqual(hello["classes"]["sample.echo"], {})
        self.assertNotIn("template", hello)

    def test_result_is_sent_with_job_and_fence(self):
        self.assertEqual(self.shared.outcome("add", {"a": 1, "b": 2}),
                         {"job": "j1", "fence": 7, "outcome": "complete", "result": 3})
        self.assertGreater(self.shared.cpu, 0)

    def test_data_becomes_arguments(self):
        for class_name, data, result in [("add", [1, 2], 3), ("add", 5, 6), ("add", {"a": 1}, 2),
                                         ("sample.echo", None, None), ("all", [1, [2]], [1, [2]]), ("all", [], []),
                                         ("sample.echo", {"value": {"x": "ü\U0001f600\0"}}, {"x": "ü\U0001f600\0"}),
                                         ("async_add", [1], 2)]:
            done = self.shared.outcome(class_name, data)
            self.assertEqual((done["outcome"], done["result"]), ("complete", result), (class_name, data))

    def test_data_that_does_not_fit_fails_for_good(self):
        for class_name, data in [("add", {"c": 1}), ("add", []), ("noop", 1), ("async_add", [1, 2, 3])]:
            done = self.shared.outcome(class_name, data)
            self.assertEqual((done["outcome"], done["error"]["group"]), ("failed_for_good", "TypeError"))
            self.assertIn("the data does not fit " + class_name + "(", done["error"]["message"])
            self.assertNotIn("trace", done["error"])

    def test_unknown_class_is_reported(self):
        self.assertEqual(self.shared.outcome("Nobody")["outcome"], "unknown_class")

    def test_data_that_is_no_json_arrives_as_bytes(self):
        self.assertEqual(self.shared.outcome("body", raw={"b64": "AP8="})["result"], ["bytes", [0, 255]])

    def test_exception_is_reported_with_group_message_and_the_trace_of_the_job_only(self):
        error = self.shared.outcome("raise_error", ["chain"])["error"]
        self.assertEqual((error["group"], error["message"]), ("ValueError", "outer ünïcode ?"))
        self.assertIn("KeyError: 'inner'", error["trace"])
        self.assertIn("in raise_error", error["trace"])
        self.assertNotIn("prefork.py", error["trace"])

    def test_exceptions_become_outcomes(self):
        for kind, outcome, group in [("value", "failed", "ValueError"), ("exit", "failed", "SystemExit"),
                                     ("interrupt", "failed", "KeyboardInterrupt"),
                                     ("own", "failed", "sample.raise_error.<locals>.Broken"),
                                     ("unprintable", "failed", "sample.raise_error.<locals>.Unprintable"),
                                     ("fail", "failed_for_good", "Fail")]:
            done = self.shared.outcome("raise_error", [kind])
            self.assertEqual((done["outcome"], done["error"]["group"]), (outcome, group))
            self.assertNotIn("result", done)

    def test_retry_and_snooze_send_their_delay(self):
        done = self.shared.outcome("raise_error", ["retry"])
        self.assertEqual(done, {"job": "j1", "fence": 7, "outcome": "retry", "after": 30})
        done = self.shared.outcome("raise_error", ["retry why"])
        self.assertEqual((done["after"], done["error"]["group"], done["error"]["message"]), (1.5, "Retry", "busy"))
        self.assertEqual(self.shared.outcome("raise_error", ["snooze"]),
                         {"job": "j1", "fence": 7, "outcome": "snooze", "after": 60})

    def test_advance_names_the_next_queue(self):
        head = {"job": "j1", "fence": 7, "outcome": "complete"}
        self.assertEqual(self.shared.outcome("film", ["all"]), {
            **head, "result": {"bytes": 5}, "next": {"queue": "encode", "delay": 1.5, "depends": ["a", "b"]}})
        self.assertEqual(self.shared.outcome("film", ["here"]), {**head, "result": None, "next": {"queue": "encode"}})
        bad = self.shared.outcome("film", ["bad"])
        self.assertEqual((bad["outcome"], bad["next"], bad["result"]["$taskvisor"]),
                         ("complete", {"queue": "encode"}, "not kept"))

    def test_a_result_that_cannot_be_kept_leaves_the_reason_in_its_place(self):
        # The job has run and had its effects: it has not failed.
        for kind, words in [("nan", "the result is not JSON: result.nan: nan"), ("surrogate", "half of a surrogate"),
                            ("huge", "the result is too long")]:
            done = self.shared.outcome("result", [kind])
            self.assertEqual((done["outcome"], done["result"]["$taskvisor"]), ("complete", "not kept"))
            self.assertIn(words, done["result"]["value"])
        for kind, kept in [("set", {"$taskvisor": "set", "value": [1]}), ("bytes", {"$taskvisor": "bytes", "value": "eA=="})]:
            self.assertEqual(self.shared.outcome("result", [kind])["result"], {kind: kept})

    def test_five_megabytes_go_in_and_out(self):
        text = "ü" * 2_500_000
        self.assertEqual(self.shared.outcome("sample.echo", [text])["result"], text)

    def test_progress_is_sent_while_the_job_runs(self):
        self.shared.outcome("report")
        self.assertEqual(self.shared.seen, [
            ("progress", {"job": "j1", "fraction": 0.0, "message": "step 0"}),
            ("progress", {"job": "j1", "fraction": 0.5, "message": "step 1"}),
            ("progress", {"job": "j1", "fraction": 1.0, "message": "step 2"}),
            ("progress", {"job": "j1", "fraction": 1.0})])

    def test_current_job_has_the_attributes_of_the_job(self):
        done = self.shared.outcome("about", None, tags=["a"], priority=3, attempt=2, time_limit=60)
        *known, left = done["result"]
        self.assertEqual(known, ["j1", "about", "q", 2, 3, ["a"], None, 60])
        self.assertTrue(59 < left <= 60)

    def test_output_and_log_lines_arrive_before_done(self):
        before = len(self.shared.stdout())
        self.shared.outcome("say", ["hällo"])
        self.assertEqual(self.shared.stdout()[before:], "hällo\nno newline")
        self.assertIn("hällo\nINFO sample: logged hällo\n", self.shared.stderr())

    def test_lines_on_stdout_and_stderr_keep_their_order(self):
        worker = self.worker(streams_together=True)
        worker.outcome("alternates")
        self.assertEqual(worker.stdout(), "".join(f"{number}\n" for number in range(400)))

    def test_the_directory_of_the_job_is_entered_and_left(self):
        with tempfile.TemporaryDirectory() as directory:
            inside = self.shared.outcome("where", cwd=directory)["result"][0]
            self.assertEqual(inside, os.path.realpath(directory))
        self.assertEqual(self.shared.outcome("where")["result"][0], os.getcwd())
        self.assertEqual(self.shared.outcome("where", cwd="/no/such")["error"]["group"], "FileNotFoundError")

    def test_a_job_may_use_programs_and_processes(self):
        self.assertEqual(self.shared.outcome("children")["result"], ["from a program\n", -signal.SIGTERM])

    def test_forked_child_that_returns_from_a_job_sends_no_result(self):
        self.assertEqual(self.shared.outcome("fork_and_return")["result"], 0)
        self.assertEqual(self.shared.outcome("add", [1])["result"], 2)

    def test_threads_of_a_job_belong_to_it(self):
        self.assertEqual(self.shared.outcome("threads_work")["result"], ["j1", 0])
        self.assertEqual(self.shared.outcome("thread_job")["result"], ["j1", "j1"])

    def test_ping_is_answered_between_jobs_and_unknown_fields_are_ignored(self):
        self.shared.send("ping", new_field=1)
        self.assertEqual(self.shared.receive(), ("pong", {}))
        self.assertEqual(self.shared.outcome("add", [1], new_field={})["result"], 2)

    def test_empty_lines_are_skipped_and_split_frames_are_joined(self):
        self.shared.socket.sendall(b"\n\n{\"ping\"")
        self.shared.socket.sendall(b":{}}\n\n{\"ping\":{}}\n")
        self.assertEqual([self.shared.receive(), self.shared.receive()], [("pong", {})] * 2)


class Calls(WorkerTest):
    def asked(self, worker, *answer, **reply):
        while True:
            name, fields = worker.receive()
            if name == "call":
                break
        worker.send("reply", n=fields["n"], **reply)
        self.assertEqual(fields["verb"], "put")
        return fields["args"]["jobs"]

    def test_put_inside_a_job_goes_over_the_channel(self):
        worker = self.worker()
        worker.run("put_inside")
        self.assertEqual(self.asked(worker, ok={"ids": ["my"]}),
                         [{"queue": "q2", "class": "add", "data": {"a": 1, "b": 2}, "priority": 5, "delay": 10,
                           "tags": ["x"], "retries": 1, "retry_delay": 1, "retry_cap": 900, "time_limit": 5,
                           "id": "my"}])
        self.assertEqual(worker.done()["result"], "my")
        worker.run("put_inside", ["foreign"])
        self.assertEqual(self.asked(worker, ok={"ids": ["x"]}),
                         [{"queue": "ruby", "class": "Mail::Send", "data": [1, "two"], "priority": -3}])
        self.assertEqual(worker.done()["result"], "x")
        worker.run("put_inside", ["many"])
        self.assertEqual(len(self.asked(worker, ok={"ids": ["a", "b", "c"]})), 3)
        self.assertEqual(worker.done()["result"], ["a", "b", "c"])
        worker.run("put_inside", ["thread"])
        self.asked(worker, ok={"ids": ["t"]})
        self.assertEqual(worker.done()["result"], ["t"])
        worker.run("aput_inside")
        self.asked(worker, ok={"ids": ["s"]})
        self.assertEqual(worker.done()["result"], "s")

    def test_refused_put_raises_an_exception_in_the_job(self):
        worker = self.worker()
        worker.run("put_inside")
        self.asked(worker, error="the id exists")
        error = worker.done()["error"]
        self.assertEqual((error["group"], error["message"]), ("PutError", "failed to put: the id exists"))

    def test_shutdown_during_a_call_takes_effect_afterwards(self):
        worker = self.worker()
        worker.run("put_inside")
        name, fields = worker.receive()
        worker.send("shutdown")
        worker.send("reply", n=fields["n"] + 1000, ok={})
        worker.send("reply", n=fields["n"], ok={"ids": ["1"]})
        self.assertEqual((name, worker.done()["outcome"]), ("call", "complete"))
        self.assertEqual(worker.wait(), 0)


class Ends(WorkerTest):
    def waiting(self, class_name="wait", data=None, **fields):
        worker = self.worker()
        worker.run(class_name, data, **fields)
        self.assertEqual(worker.receive()[0], "progress")
        return worker

    def test_sigterm_without_a_job_exits_0(self):
        worker = self.worker()
        worker.kill()
        self.assertEqual(worker.wait(), 0)
        self.assertEqual(worker.stderr(), "")

    def test_sigterm_never_gets_lost_before_the_first_wait(self):
        for _ in range(3):
            worker = self.worker(greet=False)
            worker.receive()
            worker.kill()
            self.assertEqual(worker.wait(), 0)

    def test_log_shows_where_an_interrupted_job_was(self):
        # Before Python 3.9 an event loop forgets where a coroutine was.
        known = 2 if sys.version_info >= (3, 9) else 1
        for class_name, lines in (("wait", [r"in wait\n    (time.sleep|progress)\("]),
                                  ("async_nap", ["in async_nap\n    await nap", r"in nap\n    await asyncio.sleep\(30\)"]))[:known]:
            for limit, name in ((60, "Interrupted: asked to end by SIGTERM"), (0.01, "TimeLimitExceeded: the time limit of 0.01 s")):
                worker = self.waiting(class_name, time_limit=limit)
                worker.kill()
                worker.done()
                self.assertEqual(worker.wait(), 0)
                said = worker.stderr()
                self.assertRegex(said, f"^taskvisor.worker: {name}.* The job was here:\n")
                for line in lines:
                    self.assertRegex(said, line)
                self.assertNotIn("/taskvisor/", said)
                self.assertEqual(said.count("  File "), len(lines) + (class_name == "async_nap"), said)

    def test_log_shows_a_job_interrupted_while_it_sends_progress(self):
        worker = self.worker()
        worker.run("tells")
        self.assertEqual(worker.receive()[0], "progress")
        worker.kill()
        self.assertEqual(worker.done()["error"]["group"], "Interrupted")
        self.assertRegex(worker.stderr(), r"The job was here:\n  File .*, in tells\n")

    def test_logged_place_is_in_the_code_of_the_job_not_of_the_package(self):
        own = r'  File .*, in told_in_ours\n    progress\(message="busy"\)\n'
        caller = r"  File .*, in calls_a_job\n    told_in_ours\(\)\n"
        for class_name, lines in (("told_in_ours", own), ("calls_a_job", caller + own)):
            worker = self.worker()
            self.assertEqual(worker.outcome(class_name)["error"]["group"], "Interrupted")
            self.assertEqual(worker.wait(), 0)
            self.assertRegex(worker.stderr(), rf"The job was here:\n{lines}\Z")

    def test_crash_dumps_the_stacks_of_all_threads(self):
        worker = self.worker()
        worker.run("crash_in_thread")
        self.assertEqual(worker.receive(), (None, None))
        self.assertEqual(worker.wait(), -signal.SIGSEGV)
        self.assertIn("in crash_in_thread", worker.stderr())

    def test_job_leaves_only_threads_to_the_next_one_and_they_are_reported(self):
        worker = self.worker()
        with tempfile.TemporaryDirectory() as directory:
            before = worker.outcome("changed")["result"]
            self.assertEqual([before[0], before[1], before[2], before[5]], [True, True, 0, "unset"])
            gone = os.path.join(directory, "gone")
            os.mkdir(gone)
            for place in (directory, gone):
                self.assertEqual(worker.outcome("changes", [place])["left"], ["thread beat"])
                done = worker.outcome("changed")
                self.assertEqual((done["result"], done.get("left")), (before, None))

    def test_output_of_a_thread_of_an_earlier_job_is_not_charged_to_the_next_one(self):
        worker = self.worker()
        for _ in range(2):
            done = worker.outcome("leaves_a_thread", id="first")
            self.assertEqual(done["result"], "first")
            self.assertIn("thread stray", done["left"])
            before = len(worker.stdout()), len(worker.stderr())
            self.assertEqual(worker.outcome("meets_a_thread", id="second")["result"], ["first", None])
            # A thread of a pool works for each later job, too.
            (name, fields), = worker.seen
            self.assertEqual((name, fields["job"], fields["message"][:10]), ("progress", "second", "ThreadPool"))
            label = "[thread stray, left by job first]"
            self.assertEqual(worker.stdout()[before[0]:], f"{label} half a line, late\nmy own\n")
            self.assertEqual(worker.stderr()[before[1]:], f"{label} INFO sample: late\n")
        self.assertEqual(worker.outcome("say", ["plain"])["outcome"], "complete")
        self.assertTrue(worker.stdout().endswith("plain\nno newline"))

    def test_sigterm_interrupts_the_job_and_ends_the_worker_after_it(self):
        worker = self.waiting()
        worker.kill()
        done = worker.done()
        self.assertEqual((done["outcome"], done["error"]["group"]), ("canceled", "Interrupted"))
        self.assertIn("in wait", done["error"]["trace"])
        self.assertEqual(worker.wait(), 0)

    def test_job_that_is_told_to_end_sees_its_grace(self):
        worker = self.waiting("time_to_leave", time_limit=3600, grace=10)
        worker.kill()
        self.assertEqual(worker.done()["error"]["group"], "Interrupted")
        self.assertEqual(worker.wait(), 0)
        self.assertTrue(0 < float(worker.stdout()) <= 10)

    def test_worker_exits_at_once_and_in_order_after_an_interrupted_job(self):
        worker = self.waiting("slow_to_leave")
        worker.kill()
        self.assertEqual(worker.done()["error"]["group"], "Interrupted")
        self.assertEqual(worker.wait(), 0)
        self.assertEqual(worker.stdout(), "left in order\n")

    def test_sigterm_at_the_time_limit_is_reported_as_the_time_limit(self):
        worker = self.waiting(time_limit=0.1)
        worker.kill()
        done = worker.done()
        self.assertEqual((done["outcome"], done["error"]["group"], done["error"]["message"]),
                         ("failed", "TimeLimitExceeded", "the time limit of 0.1 s is over"))
        self.assertEqual(worker.wait(), 0)

    def test_soft_time_limit_raises_in_the_job_and_the_worker_lives_on(self):
        for class_name in ("wait", "async_wait"):
            worker = self.worker()
            for _ in range(2):
                done = worker.outcome(class_name, [False] if class_name == "wait" else [0.01], soft_time_limit=0.05)
                self.assertEqual((done["outcome"], done["error"]["group"], done["error"]["message"]),
                                 ("failed", "SoftTimeLimitExceeded", "the soft time limit of 0.05 s is over"))
            self.assertEqual(worker.outcome("add", [1])["outcome"], "complete")

    def test_soft_time_limit_leaves_out_the_time_in_which_the_process_was_stopped(self):
        for class_name, data in (("wait", [False]), ("async_wait", [0.01])):
            worker = self.worker()
            # The third job gets no answer: it cannot wait for ever.
            for stops, least in (([0.5], 0.55), ([], 0.05), ([None] * 9, 1.05)):
                worker.stops, begun = stops, time.monotonic()
                done = worker.outcome(class_name, data, soft_time_limit=0.05)
                self.assertEqual(done["error"]["group"], "SoftTimeLimitExceeded")
                self.assertLessEqual(least, time.monotonic() - begun)

    def test_job_that_continues_after_its_soft_time_limit_hits_the_hard_one(self):
        worker = self.worker()
        worker.run("goes_on", soft_time_limit=0.05, time_limit=0.1)
        self.assertEqual(worker.receive(), ("progress", {"job": "j1", "message": "SoftTimeLimitExceeded"}))
        worker.kill()
        self.assertEqual(worker.done()["error"]["group"], "TimeLimitExceeded")
        self.assertEqual(worker.wait(), 0)

    def test_interrupted_job_may_complete(self):
        worker = self.waiting("wait", [True])
        worker.kill()
        self.assertEqual(worker.done()["result"], "ended in peace")
        self.assertEqual(worker.wait(), 0)

    def test_sigterm_cancels_a_coroutine_and_lets_it_clean_up(self):
        worker = self.waiting("async_wait", [0.01])
        worker.kill()
        done = worker.done()
        self.assertEqual((done["outcome"], done["error"]["group"]), ("canceled", "Interrupted"))
        self.assertIn(("progress", {"job": "j1", "message": "really over"}), worker.seen)
        self.assertEqual(worker.stdout(), "cleaned up\n")
        self.assertEqual(worker.wait(), 0)

    def test_a_job_that_waits_for_a_reply_can_be_interrupted(self):
        worker = self.worker()
        worker.run("put_inside")
        self.assertEqual(worker.receive()[0], "call")
        worker.kill()
        self.assertEqual(worker.done()["error"]["group"], "Interrupted")
        self.assertEqual(worker.wait(), 0)

    def test_shutdown_ends_the_worker_when_its_job_is_over(self):
        worker = self.worker()
        worker.run("add", [1])
        worker.send("shutdown")
        self.assertEqual(worker.done()["result"], 2)
        self.assertEqual(worker.wait(), 0)

    def test_end_of_file_on_the_channel_ends_the_worker(self):
        worker = self.worker()
        worker.hang_up()
        self.assertEqual(worker.wait(), 0)

    def test_job_that_exits_sends_no_outcome(self):
        worker = self.worker()
        worker.run("vanish")
        self.assertEqual(worker.receive(), (None, None))
        self.assertEqual(worker.wait(), 0)

    def test_a_job_that_closes_the_channel_ends_the_worker_with_a_message(self):
        for again in (False, True):
            worker = self.worker()
            worker.run("close", [3, again])
            self.assertEqual(worker.receive(), (None, None))
            self.assertEqual(worker.wait(), 1)
            self.assertIn("descriptor 3 was closed by a job", worker.stderr())

    def test_job_that_closes_its_output_does_not_affect_later_jobs(self):
        worker = self.worker()
        for descriptor in (1, 2):
            for again in (False, True):
                self.assertEqual(worker.outcome("close", [descriptor, again])["outcome"], "complete")
        self.assertEqual(worker.outcome("close_streams")["outcome"], "complete")
        before = len(worker.stdout())
        self.assertEqual(worker.outcome("say", ["still here"])["outcome"], "complete")
        self.assertEqual(worker.stdout()[before:], "still here\nno newline")
        self.assertIn("still here\n", worker.stderr())

    def test_job_that_closes_all_descriptors_ends_the_worker_and_is_not_complete(self):
        worker = self.worker()
        worker.run("close_all")
        self.assertEqual(worker.receive(), (None, None))
        self.assertEqual(worker.wait(), 1)


if __name__ == "__main__":
    unittest.main()
