"""`taskvisor.redis` without a supervisor: what does not work there says so, and what nobody would run is warned of."""

import asyncio
import json
import re
import socket
import threading
import time
import warnings
from unittest import mock

import support
from test_redis import RedisTest


class Clear(RedisTest):
    """What does not work straight on a Redis says so, and what would not run is warned of."""

    def warned(self, act):
        from taskvisor.client import notes
        from taskvisor.redis import fleet

        # A server that answers late is not asked for what is only a warning.
        with warnings.catch_warnings(record=True) as said, mock.patch.object(notes, "_warned", set()), \
                mock.patch.object(fleet, "_PATIENCE_SECONDS", 10):
            warnings.simplefilter("always")
            act()
        return [str(one.message) for one in said]

    def test_nobody_who_takes_a_queue_is_warned_of_once(self):
        def put():
            self.client.put("q", "c")
            self.client.put("q", "d")

        self.assertEqual(self.warned(put), [
            f"no supervisor on {self.redis.url} takes jobs from queue 'q': what is put there waits (hint: start one there: "
            "taskvisor start -b URL)"])

    def test_mistyped_queue_and_class_are_warned_of_in_the_words_of_the_program(self):
        self.server(broker=self.redis.url)
        end = time.monotonic() + 20
        while "real_jobs.add" not in self.program("status", "--fleet", "--json") and time.monotonic() < end:
            pass
        cases = {("default", "real_jobs.add"): None,
                 ("defualt", "real_jobs.add"): "takes jobs from queue 'defualt': .*hint: did you mean 'default'",
                 ("default", "real_jobs.ad"): "knows the class 'real_jobs.ad': .* held in the end .hint: did you mean 'real_jobs"}
        for (queue, class_name), words in cases.items():
            with self.subTest(queue=queue, class_name=class_name):
                said = self.warned(lambda: self.client.put(queue, class_name, [1]))
                theirs = self.program("put", queue, class_name, "[1]", said=True)
                self.assertEqual(len(said), 0 if words is None else 1, said)
                if words is None:
                    self.assertNotIn("note:", theirs)
                else:
                    self.assertRegex(said[0], words)
                    self.assertIn(f"note: {said[0].partition(' (hint')[0]}\n", theirs)

    def test_options_of_the_url_that_the_program_refuses_are_refused_in_its_words(self):
        from taskvisor.redis import RedisClient

        socket = self.redis.url
        for url in (f"{socket}?prefix=app", f"{socket}?password=x", "redis://h/0?db=1", "redis://h/0?socket_timeout=5",
                    "rediss://h/0?cafile=/x", "redis+sentinel://h/m?sentinel_tls=yes", f"{socket}?protocol=4", f"{socket}?x"):
            with self.subTest(url=url):
                with self.assertRaisesRegex(ValueError, "broker's URL cannot be taken: .*' ?.*there$") as caught:
                    RedisClient(url)
                theirs = self.program("put", "q", "c", "1", fails=True, broker=url)
                if "protocol" not in url and not url.endswith("?x"):
                    self.assertIn(re.search("it has '[a-z_]*=", str(caught.exception)).group(), theirs)
        for option in ("protocol=resp3", "protocol=2", "db=1", "db=1&protocol=3"):
            with self.subTest(option=option):
                job = RedisClient(f"{socket}?{option}").put("q", "c")
                found = json.loads(self.program("job", "show", "--json", str(job), broker=f"{socket}?{option}"))
                self.assertEqual(found["state"], "waiting")

    def test_output_says_which_host_has_it(self):
        from taskvisor import SupervisorError
        from taskvisor.client import stand_in

        waits = self.client.put("q", "c")
        with self.assertRaisesRegex(SupervisorError, f"output of job {waits} is not in unix.*: no attempt has begun; .*Client"):
            waits.logs()
        self.server(broker=self.redis.url)
        ran = self.client.put("default", "real_jobs.add", [1])
        ran.wait(30)
        words = f"attempt 1 ran by .* on {socket.gethostname()}; output stays on the host"
        with self.assertRaisesRegex(SupervisorError, words):
            ran.logs()
        self.addCleanup(setattr, stand_in.current, "default", None)
        self.client.use()
        from taskvisor import JobId

        with self.assertRaisesRegex(SupervisorError, words):
            JobId(str(ran)).logs()

    def test_methods_that_need_a_supervisor_say_so(self):
        from taskvisor import AsyncClient, Client, SupervisorError

        for name in ("queues", "retry", "events", "put_recurring", "status"):
            with self.assertRaisesRegex(AttributeError, rf"RedisClient has no {name}\(\): that needs a supervisor"):
                getattr(self.client, name)
        with self.assertRaisesRegex(AttributeError, "no attribute 'qeues'$"):
            self.client.qeues
        for client in (Client, AsyncClient):
            with self.assertRaisesRegex(SupervisorError, "straight by taskvisor.redis.RedisClient") as caught:
                client("redis://:secret@h/0")
            self.assertNotIn("secret", str(caught.exception))


class Ear(RedisTest):
    def test_closed_event_loop_takes_no_end_from_others(self):
        from taskvisor.redis import place

        # Without a word it would look again by itself, and find the end without having heard of it.
        patch = mock.patch.object(place, "_SILENCE_SECONDS", 60)
        patch.start()
        self.addCleanup(patch.stop)

        async def begin():
            task = asyncio.ensure_future(self.client.put("q", "c", id="left").aresult())
            while not self.client.place._ear._waiters:
                await asyncio.sleep(0)
            task._log_destroy_pending = False
            return task

        loop = asyncio.new_event_loop()
        left = loop.run_until_complete(begin())
        loop.close()
        id = self.client.put("q", "c")
        canceling = threading.Timer(0.2, lambda: self.client.cancel(["left", str(id)]))
        canceling.start()
        began = time.monotonic()
        self.assertEqual(id.wait(20), "canceled")
        self.assertLess(time.monotonic() - began, 15)
        canceling.join()
        del left

    def test_it_ends_when_nobody_waits_though_messages_keep_coming(self):
        ear = self.client.place._ear
        ear.leave(ear.watch(["x"], print))
        thread, end = ear._thread, time.monotonic() + 20
        while thread.is_alive() and time.monotonic() < end:
            self.client.place.link.redis.publish("ql:log", '{"jid": "other"}')
        self.assertFalse(thread.is_alive(), "it goes on to listen")


if __name__ == "__main__":
    support.unittest.main()
