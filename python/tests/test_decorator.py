"""The decorator @job: its settings, and the function that it returns."""

import asyncio
import datetime
import functools
import inspect
import multiprocessing
import pickle
import sys
import unittest

import sample
from support import PACKAGE  # noqa: F401

from taskvisor import job
from taskvisor.protocol import frames


@job("decorated")
def decorated(number):
    return number + 1


@job("coroutine")
async def coroutine(number):
    return number


class Decorator(unittest.TestCase):
    def refused(self, kind, words, *arguments, **settings):
        with self.assertRaisesRegex(kind, words):
            job(*arguments, **settings)

    def test_invalid_settings_are_refused_at_the_decorator(self):
        for name in ("time_limit", "soft_time_limit", "cpu_limit"):
            self.refused(ValueError, f"{name} must be more than 0 seconds", **{name: 0})
            self.refused(ValueError, f"{name} must be at most", **{name: 1e30})
        self.refused(ValueError, "process_limit must be a whole number from 1", process_limit=0)
        self.refused(ValueError, "retries must be a whole number from 0 to", retries=2**32)
        self.refused(ValueError, "memory_limit must be a size", memory_limit="60")
        self.refused(ValueError, "memory_limit must be less than", memory_limit=2**63)
        self.refused(ValueError, r"soft_time_limit \(6\) must not be above time_limit \(5\)",
                     soft_time_limit=6, time_limit=5)
        self.assertTrue(callable(job("fits", soft_time_limit=5, time_limit=6, process_limit=1, retries=0)))

    def test_invalid_names_are_refused(self):
        for name, words in (("", "must be a name"), ("a\nb", "newlines"), ("a\x85b", "newlines"),
                            ("é" * 129, "256 bytes at most, not 258")):
            self.refused(ValueError, f"class of a job must .*{words}|{words}", name)
            self.refused(ValueError, words, queue=name)
        job("é" * 128)
        self.refused(TypeError, "must be a name", queue=None)

    def test_generators_and_methods_are_refused(self):
        def generator():
            yield 1

        async def asynchronous_generator():
            yield 1

        for function in (generator, asynchronous_generator):
            self.refused(TypeError, f"{function.__name__} is a generator", function)
            with self.assertRaisesRegex(TypeError, "is a generator"):
                job("named")(function)
        with self.assertRaisesRegex(TypeError, "method is a method"):
            class WithMethod:
                @job
                def method(self):
                    pass
        with self.assertRaisesRegex(TypeError, "write @staticmethod above @job"):
            class StaticMethodInside:
                @job
                @staticmethod
                def static():
                    pass
        self.refused(TypeError, "@job is for functions, not for 5", 5)

        class WithStatic:
            @staticmethod
            @job("static")
            def static(number):
                return number

        self.assertEqual(WithStatic.static(3), 3)

    def test_job_is_pickled_by_name_like_a_function(self):
        self.assertIs(pickle.loads(pickle.dumps(decorated)), decorated)
        # The module attribute is the plain function.
        by_class = sample.functions_by_class()["wait"]
        self.assertIs(pickle.loads(pickle.dumps(by_class)), by_class)
        self.assertIs(pickle.loads(pickle.dumps(functools.partial(decorated, 1))).func, decorated)
        with multiprocessing.get_context("fork").Pool(1) as pool:
            self.assertEqual(pool.map(decorated, [1, 2]), [2, 3])

    def test_method_names_of_other_libraries_give_a_hint(self):
        for word in ("delay", "send", "apply_async"):
            with self.assertRaisesRegex(AttributeError, rf"no attribute '{word}'; queue it with decorated.put\("):
                getattr(decorated, word)
        self.assertFalse(hasattr(decorated, "anything_else"))

    def test_async_job_is_recognized_as_a_coroutine_function(self):
        self.assertTrue(asyncio.iscoroutinefunction(coroutine))
        self.assertFalse(asyncio.iscoroutinefunction(decorated))
        if sys.version_info >= (3, 10):
            self.assertTrue(inspect.iscoroutinefunction(coroutine))
        self.assertFalse(inspect.iscoroutinefunction(decorated))
        self.assertEqual(str(inspect.signature(coroutine)), "(number)")


class NotJson(unittest.TestCase):
    def said(self, value):
        with self.assertRaises(TypeError) as caught:
            frames.strict_json(value, "result")
        return str(caught.exception)

    def test_error_names_the_place_in_a_value(self):
        loop = {}
        loop["x"] = [loop]
        now = datetime.datetime(2026, 1, 1)
        for value, words in (
            ({"items": [0, 1, 2, {"when": now}]}, "result.items[3].when: datetime"),
            ({"a b": {1}}, "result['a b']: set"),
            ([float("nan")], "result[0]: nan"),
            ({(1, 2): 3}, "result: a key of type tuple"),
            ({"a": ["\ud800"]}, "result.a[0]: text with half of a surrogate pair"),
            (loop, "result.x[0]: a part of itself"),
            (b"x", "result: bytes"),
            (sample.Own(), "result: sample.Own"),
        ):
            self.assertEqual(self.said(value), f"not JSON: {words}")

    def test_error_names_a_place_deeper_than_the_recursion_limit(self):
        deep = [{1}]
        for _ in range(50_000):
            deep = [deep]
        self.assertRegex(self.said(deep), r"^not JSON: result\[0\]\[0\].* \.\.\. .*\[0\]: set$")


if __name__ == "__main__":
    unittest.main()
