"""What a job changes of its process, and what the next job in the same worker finds."""

import os
import sys
import unittest

from support import WorkerTest

#: What is changed, as the job's output names it; the job that changes it; what the next job has to find as before.
CHANGES = [
    ("O_NONBLOCK of descriptor 0", "os.set_blocking(0, False)", "os.get_blocking(0)"),
    ("O_NONBLOCK of descriptor 1", "os.set_blocking(1, False)", "os.get_blocking(1)"),
    ("O_NONBLOCK of descriptor 2", "os.set_blocking(2, False)", "os.get_blocking(2)"),
    ("descriptor 0", "os.dup2(os.open('/etc/passwd', os.O_RDONLY), 0)", "os.readlink('/proc/self/fd/0')"),
    ("descriptor 0", "os.close(0)", "os.readlink('/proc/self/fd/0')"),
    ("sys.stdin", "sys.stdin = None", "sys.stdin is None"),
    ("sys.stdout", "import io; sys.stdout = io.StringIO()", "type(sys.stdout).__name__"),
    ("sys.stdout", "import io; sys.stdout = io.TextIOWrapper(sys.stdout.buffer)",
     "print('seen') or sys.stdout.line_buffering"),
    ("sys.stderr", "sys.stderr = None", "type(sys.stderr).__name__"),
    ("an alarm (ITIMER_REAL)", "signal.setitimer(signal.ITIMER_REAL, 1000)", "signal.getitimer(signal.ITIMER_REAL)"),
    ("a timer (ITIMER_VIRTUAL)", "signal.setitimer(signal.ITIMER_VIRTUAL, 1000)",
     "signal.getitimer(signal.ITIMER_VIRTUAL)"),
    ("a timer (ITIMER_PROF)", "signal.setitimer(signal.ITIMER_PROF, 1000, 1)", "signal.getitimer(signal.ITIMER_PROF)"),
    ("the mask of signals", "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])",
     "sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))"),
    ("the handler of SIGINT", "signal.signal(signal.SIGINT, signal.SIG_IGN)",
     "signal.getsignal(signal.SIGINT) is signal.default_int_handler"),
    ("the handler of SIGCHLD", "signal.signal(signal.SIGCHLD, print)", "signal.getsignal(signal.SIGCHLD)"),
    ("the limit NOFILE", "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (64, r.getrlimit(r.RLIMIT_NOFILE)[1]))",
     "__import__('resource').getrlimit(7)"),
    ("the limit CPU, AS", "import resource as r\nfor n in (0, 9): r.setrlimit(n, (1 << 40, r.getrlimit(n)[1]))",
     "[__import__('resource').getrlimit(n) for n in (0, 9)]"),
    ("the limit RSS, LOCKS, SIGPENDING, MSGQUEUE, RTTIME",
     "import resource as r\nfor n in (5, 10, 11, 12, 15): r.setrlimit(n, (1000, r.getrlimit(n)[1]))",
     "[__import__('resource').getrlimit(n) for n in (5, 10, 11, 12, 15)]"),
    ("the processors", "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])", "sorted(os.sched_getaffinity(0))"),
    ("oom_score_adj", "open('/proc/self/oom_score_adj', 'w').write('900')", "open('/proc/self/oom_score_adj').read()"),
    ("logging.disable", "logging.disable(logging.CRITICAL)", "logging.root.manager.disable"),
    ("socket.setdefaulttimeout", "import socket; socket.setdefaulttimeout(3)",
     "__import__('socket').getdefaulttimeout()"),
    ("the recursion limit", "sys.setrecursionlimit(5000)", "sys.getrecursionlimit()"),
    ("gc.disable", "import gc; gc.disable()", "__import__('gc').isenabled()"),
    ("gc.set_threshold, gc.set_debug", "import gc; gc.set_threshold(5); gc.set_debug(4)",
     "(__import__('gc').get_threshold(), __import__('gc').get_debug())"),
    ("faulthandler.dump_traceback_later", "import faulthandler; faulthandler.dump_traceback_later(1000, exit=True)",
     "__import__('taskvisor.worker.dump_later').worker.dump_later.armed()"),
    ("sys.settrace, sys.setprofile, threading.settrace, threading.setprofile",
     "import sys, threading\nfor m in (sys, threading): m.settrace(lambda *_: None); m.setprofile(lambda *_: None)",
     "[__import__('sys').gettrace(), __import__('sys').getprofile(), __import__('threading')._trace_hook]"),
    ("sys.excepthook, sys.unraisablehook", "import sys; sys.excepthook = sys.unraisablehook = print",
     "[getattr(__import__('sys'), name, None) is print for name in ('excepthook', 'unraisablehook')]"),
    ("threading.excepthook", "import threading; threading.excepthook = print",
     "getattr(__import__('threading'), 'excepthook', None) is print"),
    ("warnings.filters", "import warnings; warnings.simplefilter('error')",
     "[__import__('warnings').filters[0][0], __import__('warnings').warn('heard', ResourceWarning)]"),
    ("warnings.filters", "import warnings; warnings.catch_warnings().__enter__(); warnings.simplefilter('error')",
     "[__import__('warnings').filters[0][0], __import__('warnings').warn('heard', ResourceWarning)]"),
    ("gc.freeze", "import gc; gc.collect(); gc.freeze()", "__import__('gc').get_freeze_count() > 10000"),
    ("threading.stack_size", "import threading; threading.stack_size(1 << 20)", "__import__('threading').stack_size()"),
    ("sys.setswitchinterval", "import sys; sys.setswitchinterval(0.5)", "__import__('sys').getswitchinterval()"),
    ("the locale", "import locale; locale.setlocale(locale.LC_ALL, 'C')", "__import__('locale').setlocale(0)"),
    ("os.environ (HOME, NEW, TZ)",
     "os.environ.update(NEW='x', TZ='XYZ-9'); del os.environ['HOME']; time.tzset()",
     "[os.environ.get('NEW'), os.getenv('HOME'), os.system('test -z \"$NEW\"'),\n time.strftime('%Z', time.localtime(0))]"),
    ("os.environ (HOME", "os.environ.clear()", "sorted(os.environ)"),
    ("the umask", "os.umask(0o777)", "[os.umask(0o22), os.umask(0o22)][0]"),
    ("the working directory", "os.chdir('/')", "os.getcwd()"),
]
if hasattr(sys, "get_int_max_str_digits"):
    CHANGES.append(("sys.set_int_max_str_digits", "import sys; sys.set_int_max_str_digits(0)",
                    "__import__('sys').get_int_max_str_digits()"))
if os.uname().machine == "x86_64":
    CHANGES.append(("the I/O priority", "import ctypes; ctypes.CDLL(None).syscall(251, 1, 0, 3 << 13)",
                    "__import__('ctypes').CDLL(None).syscall(252, 1, 0)"))
if os.getuid() == 0:
    CHANGES.append(("the supplementary groups", "os.setgroups([54321])", "os.getgroups()"))


#: What Linux shows of a process, but for counters, addresses, and what each call changes.
PROC = """
import os, re
COUNTED = ("State", "Vm", "Hugetlb", "Rss", "SigQ", "voluntary", "nonvoluntary", "FDSize")
def text(name):
    with open(f"/proc/self/{name}") as file:
        return file.read()
def links(name):
    found = {}
    for entry in os.listdir(f"/proc/self/{name}"):
        try:
            found[entry] = re.sub("(timerfd|pipe|socket).*", r"\\1", os.readlink(f"/proc/self/{name}/{entry}"))
        except OSError:
            pass
    return found
stat = text("stat").rpartition(")")[2].split()
seen = {name: text(name) for name in (
    "comm", "cgroup", "coredump_filter", "limits", "oom_score_adj", "personality", "timers", "timerslack_ns",
    "uid_map", "gid_map", "setgroups", "mountinfo", "cmdline")}
seen["status"] = [line for line in text("status").splitlines() if not line.startswith(COUNTED)]
# Parent, group, session, terminal, threads; nice value, processor's policy.
seen["stat"] = [stat[at] for at in (1, 2, 3, 4, 5, 15, 16, 17, 37, 38)]
seen["links"] = [os.readlink(f"/proc/self/{name}") for name in ("cwd", "root", "exe")]
seen["ns"] = links("ns")
# Others belong to objects that modules may hold, as connections.
seen["fd"] = {number: links("fd").get(number) for number in "012"}
seen["env"] = dict(os.environ)
"""


class Surroundings(WorkerTest):
    def test_all_that_proc_shows_of_the_worker_is_as_before_after_a_job_that_changed_all(self):
        worker = self.worker(env={"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"})
        before = worker.outcome("does", [PROC, "seen"], id="clean")["result"]
        # Of the streams only what the process shows; a descriptor 0 that is closed would be the next file that opens; where
        # there are threads, the C library keeps a handler of its own for `setgroups`.
        changes = [change for name, change, _ in CHANGES
                   if not name.startswith("sys.") and "os.close" not in change and "dump_traceback" not in change]
        done = worker.outcome("does", ["\n".join([*changes, PROC]), "seen"], id="spoils")
        self.assertEqual(done["outcome"], "complete", done)
        changed = {name for name in before if done["result"][name] != before[name]}
        self.assertLessEqual({"limits", "status", "links", "fd", "env"}, changed, "the look sees changes")
        self.assertEqual(worker.outcome("does", [PROC, "seen"], id="clean")["result"], before)

    def test_each_change_of_a_job_is_put_back_and_named_once(self):
        worker = self.worker(env={"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"})
        for name, change, look in CHANGES:
            with self.subTest(change):
                before = worker.outcome("does", ["", look], id="clean")
                self.assertEqual(before["outcome"], "complete", before)
                already = len(worker.stderr())
                done = worker.outcome("does", [change], id="spoils")
                self.assertEqual(done["outcome"], "complete", done)
                said = worker.stderr()[already:]
                if name == "the processors" and len(os.sched_getaffinity(0)) == 1:
                    continue
                self.assertIn("taskvisor.worker: job spoils left this changed, and the next one finds it as before: "
                              f"{name}", said)
                self.assertEqual(said.count("\n"), 1, said)
                after = worker.outcome("does", ["", look], id="clean")
                self.assertEqual(after, before)
                self.assertEqual(worker.stderr()[already:], said, "nothing is left by a job that only looks")
        self.assertEqual(worker.stdout(), "seen\n" * 2)

    def test_limits_that_native_code_or_another_process_changes_are_put_back(self):
        worker = self.worker()
        look = "__import__('resource').getrlimit(7)"
        limits = "(ctypes.c_ulong * 2)(64, __import__('resource').getrlimit(7)[1])"
        calls = {"itself": f"ctypes.CDLL(None).setrlimit(7, {limits})\n__import__('time').sleep(0.001)",
                 "a child": "import os, subprocess, sys\nsubprocess.check_call([sys.executable, '-c', 'import resource, os; "
                            "p = os.getppid(); resource.prlimit(p, 7, (64, resource.prlimit(p, 7)[1]))'])"}
        for who, call in calls.items():
            with self.subTest(who):
                before = worker.outcome("does", ["", look])["result"]
                worker.outcome("does", [f"import ctypes\n{call}"])
                self.assertEqual(worker.outcome("does", ["", look])["result"], before)
        self.assertEqual(worker.stderr().count("the limit NOFILE"), len(calls))

    def test_context_of_decimal_that_the_application_made_is_as_new_for_each_job(self):
        for mode, job in (("prefork", "divides"), ("coroutine", "divides"), ("coroutine", "awaits")):
            with self.subTest(mode=mode, job=job):
                worker = self.worker(mode=mode, module="sample_with_decimal")
                for digits in (3, 4):
                    self.assertEqual(worker.outcome(job, [digits])["result"], ["50", "0.333" + "3" * (digits - 3)])

    def test_what_cannot_be_put_back_ends_the_worker_after_the_job(self):
        change, name = (("os.setresuid(65534, 65534, 65534)", "the user") if os.getuid() == 0 else
                        ("os.nice(1)", "the nice value"))
        worker = self.worker()
        done = worker.outcome("does", [f"os.umask(0); {change}", "7"])
        self.assertEqual((done["outcome"], done["result"]), ("complete", 7))
        self.assertEqual(worker.wait(), 0)
        self.assertIn(f", the umask. A new worker follows, as {name} cannot be put back\n", worker.stderr())

    def test_score_is_read_again_after_a_job_that_closes_the_files_of_its_worker(self):
        worker = self.worker()
        close = ("for fd in os.listdir('/proc/self/fd'):\n"
                 "    link = '/proc/self/fd/' + fd\n"
                 "    if os.path.lexists(link) and 'oom_score' in os.readlink(link):\n        os.close(int(fd))\n"
                 "kept = open('/etc/passwd')\n")
        score = "open('/proc/self/oom_score_adj').read()"
        before = worker.outcome("does", ["", score])["result"]
        worker.outcome("does", [close + "open('/proc/self/oom_score_adj', 'w').write('900')"])
        self.assertEqual(worker.outcome("does", ["", score])["result"], before)
        self.assertEqual(worker.stderr().count("oom_score_adj"), 1)

    def test_soft_limits_and_own_directories_are_no_changes_of_a_job(self):
        worker = self.worker()
        worker.outcome("noop", cwd="/", soft_time_limit=60)
        worker.outcome("async_add", [1], soft_time_limit=60)
        self.assertEqual(worker.stderr(), "")

    def test_profiler_that_the_application_started_runs_on(self):
        worker = self.worker(module="sample_with_profiler")
        for _ in range(2):
            self.assertEqual(worker.outcome("interval")["result"], 900)
        self.assertEqual(worker.stderr(), "")


if __name__ == "__main__":
    unittest.main()
