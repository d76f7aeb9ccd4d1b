"""Puts from outside of a job, and the data that a call becomes."""

import http.server
import json
import os
import socketserver
import stat
import sys
import tempfile
import threading
import unittest
import warnings
from unittest import mock

import support

from taskvisor import (Advance, AsyncClient, Client, Fail, JobFunction, JobId, NewJob, PutError, Retry, Snooze, SupervisorError,
                       configure,
                       current_job, job, progress, put, put_many)
from taskvisor.client.api_socket import socket_path
from taskvisor.client.settings import settings


@job("test.Both", queue="both", retries=3, retry_delay=2)
def both(a, b=1, *, c=2):
    """Doc."""
    return a + b + c


@job("test.Late", expires=60, cron="0 3 * * *")
def late():
    return None


@job
def rest(first, *others):
    return others


# Python 3.7 has no positional-only parameters.
exec(f"def named(a{', /' if sys.version_info >= (3, 8) else ''}, **options): return a, options")
named = job("test.Named")(named)


class Calls(unittest.TestCase):
    def test_a_job_is_still_a_plain_function(self):
        self.assertEqual(both(1, c=3), 5)
        self.assertEqual((both.__name__, both.__doc__, rest.class_name, rest.queue),
                         ("both", "Doc.", f"{__name__}.rest", "default"))

    def test_a_call_becomes_one_object_without_the_defaults(self):
        self.assertEqual(both.prepare(1, c=2).data, {"a": 1, "c": 2})
        self.assertEqual(both.prepare(1, 2).data, {"a": 1, "b": 2})
        self.assertEqual(named.prepare(1, x=2).data, {"a": 1, "x": 2})

    def test_job_expires_as_its_put_or_else_its_function_says(self):
        def expires(prepared):
            return prepared.fields().get("expires")

        self.assertEqual([expires(late.prepare()), expires(late.options(expires=5).prepare()), expires(both.prepare(1)),
                          expires(NewJob("q", "test.Late")), late.recurring["job"].get("expires")], [60, 5, None, 60, 60])
        for wrong in (0, -1, "1"):
            with self.assertRaises((ValueError, TypeError)):
                late.options(expires=wrong).prepare().fields()

    def test_extra_positional_arguments_become_a_list(self):
        self.assertEqual(rest.prepare(1, 2, 3).data, [1, 2, 3])
        self.assertEqual(rest.prepare(first=1).data, {"first": 1})

    def test_call_survives_the_round_trip_through_data(self):
        for function, args, kwargs in [(both, (1,), {"c": 5}), (rest, (1, 2, 3), {}), (rest, (1,), {}),
                                       (named, (1,), {"x": 2})]:
            data = json.loads(json.dumps(function.prepare(*args, **kwargs).data))
            found_args, found_kwargs = function.call_for(data)
            self.assertEqual(function(*found_args, **found_kwargs), function(*args, **kwargs))

    def test_data_of_every_kind_becomes_arguments_or_is_refused(self):
        def plain(a, b=2, *, c=3):
            return [a, b, c]

        def strict(a, *, c):
            return [a, c]

        for function, data, expected in [(plain, 1, [1, 2, 3]), (plain, [1, 5], [1, 5, 3]),
                                         (plain, {"c": 0, "a": 1}, [1, 2, 0]), (plain, b"x", [b"x", 2, 3]),
                                         (strict, {"a": 1, "c": 2}, [1, 2]), (lambda: "none", None, "none"),
                                         (lambda: "none", {}, "none"), (lambda: "none", [], "none"),
                                         (plain, None, "missing a required argument: 'a'"),
                                         (plain, [], "missing a required argument: 'a'"),
                                         (plain, [1, 2, 3], "too many positional arguments"),
                                         (plain, {"a": 1, "x": 2}, "unexpected keyword argument 'x'"),
                                         (strict, [1], "missing a required .*'c'"),
                                         (strict, {"a": 1}, "missing a required .*'c'")]:
            made = JobFunction(function, "test", "q", {})
            with self.subTest(data=data):
                if isinstance(expected, str) and expected != "none":
                    with self.assertRaisesRegex(TypeError, expected):
                        made.call_for(data)
                else:
                    args, kwargs = made.call_for(data)
                    self.assertEqual(function(*args, **kwargs), expected)

    def test_call_that_does_not_match_the_signature_is_refused_at_once(self):
        with self.assertRaisesRegex(TypeError, "missing a required argument: 'a'"):
            both.put()
        with self.assertRaisesRegex(TypeError, "two arguments are named 'a'|multiple values for argument 'a'"):
            named.put(1, a=2)

    def test_arguments_that_are_no_json_are_refused_at_once(self):
        for value, words in [(object(), "data.a: object"), (float("inf"), "data.a: inf"), ("\ud800", "surrogate")]:
            with self.assertRaisesRegex(TypeError, f"the arguments of test.Both are .*{words}"):
                both.put(value)

    def test_invalid_options_are_refused(self):
        for options in ({"delay": -1}, {"delay": float("nan")}, {"retries": 1.5}, {"time_limit": "1"}, {"tags": "x"},
                        {"depends": "a"}, {"exists": "replace"}):
            with self.assertRaises((TypeError, ValueError)):
                both.options(**options).put(1)

    def test_option_of_a_wrong_type_is_refused_by_its_name(self):
        for options, error, words in [
            ({"priority": "high"}, TypeError, "priority must be a whole number, not 'high'"),
            ({"priority": True}, TypeError, "priority must be a whole number, not True"),
            ({"priority": 2**31}, ValueError, "priority must be a whole number from .*, not 2147483648"),
            ({"id": 7}, TypeError, "id must be a text, not 7"),
            ({"queue": 7}, TypeError, "queue must be a name, not 7"),
        ]:
            with self.subTest(options=options), self.assertRaisesRegex(error, words):
                both.options(**options).prepare(1).fields()

    def test_fraction_beyond_1_is_reported_as_1_with_a_warning(self):
        with self.assertWarnsRegex(UserWarning, r"progress\(5\): a fraction is a number from 0 to 1; 1 is reported"):
            progress(5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            progress(0.1 * 3 + 0.7000000000000001)
            progress(1)

    def test_invalid_advance_is_refused(self):
        for queue, options in [("", {}), (None, {}), ("q", {"delay": -1}), ("q", {"depends": "a"})]:
            with self.assertRaises((TypeError, ValueError)):
                Advance(queue, **options)

    def test_two_functions_cannot_have_the_same_job_name(self):
        with self.assertRaisesRegex(ValueError, "two functions are the job 'test.Both'"):
            job("test.Both")(lambda: None)

    def test_current_job_raises_outside_of_a_job(self):
        progress(0.5, "nobody hears it")
        with self.assertRaisesRegex(RuntimeError, "no job runs here"):
            current_job()

    def test_delays_must_be_finite_numbers_from_0_on(self):
        for kind in (Retry, Snooze):
            for after in (-1, float("inf"), float("nan"), "1", None, True):
                with self.assertRaises((TypeError, ValueError)):
                    kind(after=after)
        self.assertIsInstance(Fail("why"), Exception)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body))
        status, answer = self.server.answer
        answer = answer or {"ids": [str(number) for number, _ in enumerate(body["jobs"])]}
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass


class Api(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class Outside(support.WorkerTest):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        environment = mock.patch.dict(os.environ, {"TASKVISOR_RUN_DIR": self.directory, "PATH": self.directory})
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("TASKVISOR_SOCKET", None)

    def api(self, status=200, answer=None):
        server = Api(os.path.join(self.directory, "ctl.sock"), Handler)
        server.requests, server.answer = [], (status, answer)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return server

    def program(self, script):
        path = os.path.join(self.directory, "taskvisor")
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, stat.S_IRWXU)

    def test_put_uses_the_api_socket_in_the_run_directory(self):
        api = self.api()
        options = both.options(delay=1.5, priority=5, tags=["x"], retries=1, time_limit=60, id="my", exists="skip",
                               depends=("a", "b"))
        self.assertEqual(options.put("ü"), "0")
        self.assertEqual(api.requests, [("/v1/jobs", {"jobs": [{
            "queue": "both", "class": "test.Both", "data": {"a": "ü"}, "id": "my", "exists": "skip",
            "priority": 5, "tags": ["x"], "depends": ["a", "b"], "delay": 1.5, "time_limit": 60,
            "retries": 1, "retry_delay": 2}]})])

    def test_put_many_sends_one_request(self):
        api = self.api()
        self.assertEqual(put_many(both.prepare(number) for number in range(3)), ["0", "1", "2"])
        self.assertEqual(put_many([]), [])
        self.assertEqual(put("ruby", "Mail::Send", [1]), "0")
        self.assertEqual(put_many([NewJob("q", "c")]), ["0"])
        self.assertEqual([len(body["jobs"]) for _, body in api.requests], [3, 1, 1])

    def test_refused_put_raises_with_its_hint(self):
        self.api(409, {"error": "the job my exists", "hint": "give another id"})
        words = r"failed to put 1 job at .*: the job my exists \(hint: give another id\)"
        with self.assertRaisesRegex(PutError, words):
            both.put(1)

    def test_invalid_answer_is_reported(self):
        self.api(200, b"<html>")
        with self.assertRaisesRegex(PutError, "answer 200: b'<html>'"):
            both.put(1)

    def test_put_runs_the_program_when_no_supervisor_listens(self):
        self.program('[ "$1" = put ] || exit 0; printf "%s|" "$@" >"$0.args"; /bin/cat >"$0.data"; echo made-id\n')
        self.assertEqual(both.options(delay=10, time_limit=1.5, priority=-1, tags=["x", "y z"], retries=1,
                                      id="my", exists="skip", depends=["a", "b"]).put("ü"), "made-id")
        with open(os.path.join(self.directory, "taskvisor.args")) as file:
            self.assertEqual(file.read(), "put|both|test.Both|-|--priority=-1|--retries=1|--jid=my|--exists=skip|"
                                          "--delay=10s|--time-limit=1500ms|--depends=a|--depends=b|--tag=x|--tag=y z|")
        with open(os.path.join(self.directory, "taskvisor.data")) as file:
            self.assertEqual(file.read(), '{"a":"ü"}')

    def test_new_store_is_made_only_where_a_place_is_named(self):
        self.program('case "$1" in queue) echo "there is no store" >&2; exit 69;; esac; echo made-id\n')
        with self.assertRaisesRegex(PutError, "a new store is not made: .* queue list ended with 69: there is no store; "
                                              "start the supervisor, or name"):
            both.put(1)
        with mock.patch.dict(os.environ, TASKVISOR_STATE_DIR="/somewhere"):
            self.assertEqual(both.put(1), "made-id")

    def test_store_that_the_last_supervisor_noted_is_used_and_no_other(self):
        self.program('[ "$1" = put ] || exit 69; echo "$TASKVISOR_BROKER"\n')
        open(os.path.join(self.directory, "lock"), "w").close()
        patience = settings.patience
        self.addCleanup(configure, patience=patience)
        configure(patience=0)
        with self.assertRaisesRegex(PutError, f"{self.directory} does not say where the jobs are without it; start"):
            both.put(1)
        store = os.path.join(self.directory, "kept.db")
        with open(os.path.join(self.directory, "store"), "w") as file:
            file.write(store)
        with self.assertRaisesRegex(PutError, "does not say where the jobs are"):
            both.put(1)
        open(store, "w").close()
        self.assertEqual(both.put(1), f"sqlite:{store}")

    def test_queue_that_nobody_serves_is_named_once(self):
        note = {"queue": "mial", "note": "no pool here takes jobs from queue 'mial'", "hint": "did you mean 'mail'?"}
        self.api(200, {"ids": ["7"], "unserved": ["mial"], "notes": [note]})
        with self.assertWarnsRegex(UserWarning, "from queue 'mial' .hint: did you mean 'mail'") as caught:
            put("mial", "mail.Send")
        self.assertEqual(caught.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            put("mial", "mail.Send")

    def test_ids_of_a_put_are_not_lost_where_warnings_are_errors(self):
        self.api(200, {"ids": ["7"], "notes": [{"queue": "mali", "note": "no pool takes jobs from queue 'mali'"}]})
        with warnings.catch_warnings(), self.assertLogs("taskvisor", "WARNING") as logged:
            warnings.simplefilter("error")
            self.assertEqual(put("mali", "mail.Send"), "7")
        self.assertIn("takes jobs from queue 'mali'", logged.output[0])

    def test_class_that_no_worker_knows_is_named_once_beside_others(self):
        def note(name):
            return {"queue": "typos", "class": name, "note": f"no worker here knows the class '{name}'"}
        self.api(200, {"ids": ["7"], "notes": [note("ecoh"), note("ehco")]})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                both.put(1)
        self.assertEqual([str(one.message)[-7:] for one in caught], [" 'ecoh'"[-7:], " 'ehco'"[-7:]])
        self.assertEqual({one.filename for one in caught}, {__file__})

    def test_notes_of_the_program_are_warnings_too(self):
        self.program('[ "$1" = put ] || exit 0; echo id; echo "note: no supervisor runs here" >&2; echo "hint: start" >&2\n')
        with self.assertWarnsRegex(UserWarning, "no supervisor runs here .hint: start.") as caught:
            put("unstarted", "mail.Send")
        self.assertEqual(caught.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            put("unstarted", "mail.Send")

    def test_place_of_jobs_lets_no_test_put_into_the_service_that_listens_by_default(self):
        api = self.api()
        self.program('[ "$1" = put ] || exit 0; echo made-id\n')
        default = {"PYTEST_CURRENT_TEST": "x", "TASKVISOR_RUN_DIR": ""}
        with mock.patch.dict(os.environ, default), \
                mock.patch("taskvisor.client.api_socket.socket_path", return_value=api.server_address):
            for name in ("STATE_DIR", "BROKER", "CONFIG"):
                with mock.patch.dict(os.environ, {f"TASKVISOR_{name}": "x"}), \
                        self.assertRaisesRegex(PutError, "this is a test under pytest"):
                    both.put(1)
            for client in (Client(), AsyncClient()):
                with self.assertRaisesRegex(PutError, "this is a test under pytest"):
                    both.options(client=client).put(1)
            self.assertEqual(api.requests, [])
            both.options(client=Client(socket=api.server_address)).put(1)
        with mock.patch.dict(os.environ, {**default, "TASKVISOR_STATE_DIR": "x"}), \
                mock.patch("taskvisor.client.api_socket.socket_path", return_value=f"{self.directory}/nobody/ctl.sock"):
            self.assertEqual(both.put(1), "made-id")

    def test_program_is_told_of_the_socket_that_configure_names_and_of_no_other_place(self):
        self.program('echo "$TASKVISOR_SOCKET $TASKVISOR_BROKER $TASKVISOR_RUN_DIR $TASKVISOR_STATE_DIR"\n')
        self.addCleanup(setattr, settings, "socket", None)
        run = os.path.join(self.directory, "other")
        os.mkdir(run)
        configure(socket=os.path.join(run, "ctl.sock"))
        with mock.patch.dict(os.environ, TASKVISOR_STATE_DIR="/somewhere"):
            self.assertEqual(JobId("7").logs(), f"{run}/ctl.sock   \n")
            with self.assertRaisesRegex(PutError, f"nobody listens on {run}/ctl.sock .*{run} does not say where the jobs"):
                both.put(1)
            for name, text in [("lock", ""), ("store", f"{run}/store")]:
                with open(os.path.join(run, name), "w") as file:
                    file.write(text)
            self.assertEqual(both.put(1), f"{run}/ctl.sock sqlite:{run}/store  ".strip())
        configure(socket=os.path.join(run, "mine.sock"))
        with self.assertRaisesRegex(SupervisorError, "output of 7: .* cannot be told of the socket .*mine.sock"):
            JobId("7").logs()
        self.addCleanup(configure, patience=settings.patience)
        configure(patience=0)
        with self.assertRaisesRegex(PutError, "cannot be told of the socket .*mine.sock"):
            both.put(1)

    def test_failure_of_the_program_is_reported_with_its_stderr(self):
        self.program('[ "$1" = put ] || exit 0; echo no space >&2; exit 5\n')
        with self.assertRaisesRegex(PutError, "nobody listens on .*ctl.sock .*put ended with 5: no space"):
            both.put(1)

    def test_put_without_supervisor_and_program_says_what_to_do(self):
        with self.assertRaisesRegex(PutError, "nobody listens on .*ctl.sock .*no program taskvisor in PATH .pip install taskvisor .*; start"):
            both.put(1)

    def test_name_like_an_option_is_not_given_to_the_program(self):
        self.program("echo the help")
        with self.assertRaisesRegex(PutError, "'--help' cannot be given to .* put, as it begins with '-'; start"):
            put("default", "--help")

    def test_socket_path_is_the_same_as_that_of_the_supervisor(self):
        def path(uid, **environment):
            with mock.patch.dict(os.environ, environment, clear=True), mock.patch("os.geteuid", return_value=uid):
                return socket_path()
        self.assertEqual(path(7), "/tmp/taskvisor-7/ctl.sock")
        self.assertEqual(path(0, XDG_RUNTIME_DIR="/run/user/0"), "/run/taskvisor/ctl.sock")
        self.assertEqual(path(7, XDG_RUNTIME_DIR="/run/user/7"), "/run/user/7/taskvisor/ctl.sock")
        self.assertEqual(path(7, XDG_RUNTIME_DIR="relative"), "/tmp/taskvisor-7/ctl.sock")
        self.assertEqual(path(7, TASKVISOR_RUN_DIR="/x"), "/x/ctl.sock")
        self.assertEqual(path(7, TASKVISOR_RUN_DIR="/x", TASKVISOR_SOCKET="/y.sock"), "/y.sock")

    def test_child_process_of_a_job_puts_through_the_socket(self):
        api = self.api()
        worker = self.worker()
        done = worker.outcome("fork_and_put", [os.path.join(self.directory, "ctl.sock")])
        self.assertEqual((done["result"], worker.seen), (7, []))
        self.assertEqual(api.requests[0][1]["jobs"][0]["data"], {"a": 5})


if __name__ == "__main__":
    unittest.main()
