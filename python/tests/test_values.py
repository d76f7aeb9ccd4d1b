"""Arguments and results that JSON has not."""

import collections
import datetime
import decimal
import enum
import json
import pathlib
import sys
import types
import typing
import unittest
import uuid
from dataclasses import make_dataclass
from unittest import mock

import real
import real_jobs
import rq_installed
import support

from taskvisor import JobFailed, ResultNotKept, encoder
from taskvisor.errors import DataMismatch
from taskvisor.protocol import frames, values
from taskvisor.testing import inline

Pair = collections.namedtuple("Pair", "a b")
Corner, Corners = real_jobs.Corner, real_jobs.Corners


class Level(enum.IntEnum):
    LOW = 1


class Mode(str, enum.Enum):
    FAST = "fast"


class Holiday(datetime.date, enum.Enum):
    FIRST = 2026, 1, 1


ZONE = datetime.timezone(datetime.timedelta(hours=2))
VALUES = [
    datetime.datetime(2026, 11, 27, 12, 30, 1, 7, ZONE), datetime.datetime(2026, 1, 1), datetime.date(2026, 2, 28),
    datetime.time(23, 59), datetime.timedelta(days=-1, microseconds=3), decimal.Decimal("0.10"), uuid.UUID(int=7),
    pathlib.Path("/a/ü"), {1, "a"}, frozenset([(1)]), b"\x00\xff", real_jobs.Point(1, datetime.date(2026, 1, 1)),
    real_jobs.Money(250), real_jobs.Colour.RED, {"deep": [{"at": datetime.date.min}]},
    {(1, ("a", datetime.date.min)), (2, ())}, frozenset([Corner((1, 2))]), Corners.LEFT,
    {"$taskvisor": "date", "value": "mine"}, {"$taskvisor": {"$taskvisor": b"x"}}, "$taskvisor", ["\"$taskvisor\""],
]


#: The first that reads fields by their names, and the last one of old Pythons.
PYDANTIC = "2.14.4" if sys.version_info >= (3, 10) else "2.5.3"
SHOP = """
import datetime
from decimal import Decimal
from typing import Any, Dict, List, Set
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field

class Line(BaseModel):
    item: int
    on: datetime.date = datetime.date.min

class Order(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=str.upper)
    lines: List[Line]
    prices: Dict[str, Decimal] = {}
    codes: Set[int] = set()

    @computed_field
    @property
    def count(self) -> int:
        return len(self.lines)

class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime.datetime
    codes: Set[int]

class Packed(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    body: bytes

class File(BaseModel):
    body: bytes

class Ids(RootModel[List[int]]):
    pass

class Login(BaseModel):
    words: List[SecretStr]

line = Line(item=7, on="2026-01-02")
MODELS = [line, Order(LINES=[line], PRICES={"a": "0.10"}, CODES={3}), Ids([1, 2]), File(body=b"text"), Login(words=[""]),
          Strict(at=datetime.datetime(2026, 1, 2, 3, 4), codes={1}), Packed(body=b"\\xff")]
"""


class Values(unittest.TestCase):
    def test_every_value_survives_the_way_through_json(self):
        for value in VALUES:
            with self.subTest(value=value):
                found = values.from_json(json.loads(frames.strict_json(values.to_json([value]))))
                self.assertEqual((found, type(found[0])), ([value], type(value)))

    def test_what_is_json_by_itself_is_plain_beside_a_date_too(self):
        day = datetime.date(2026, 1, 1)
        for value, plain in [(Level.LOW, 1), (Mode("fast"), "fast"), (collections.OrderedDict(a=day), {"a": day}),
                             (collections.defaultdict(list, a=[day]), {"a": [day]}), (Pair(1, day), [1, day]),
                             (Holiday.FIRST, Holiday.FIRST)]:
            for given, wanted in [([value], [plain]), ([value, day], [plain, day])]:
                with self.subTest(value=given):
                    found = values.from_json(json.loads(frames.strict_json(values.to_json(given))))
                    self.assertEqual((found, type(found[0])), (wanted, type(plain)))

    def test_encoder_of_a_type_that_is_json_by_itself_runs_always(self):
        kind = type("Text", (str,), {})
        self.addCleanup(setattr, values._Encoders, "of_json", False)
        self.addCleanup(values._own.pop, kind)
        encoder(kind, str, kind, name="test.Text")
        for given in ([kind("a")], [kind("a"), datetime.date.min]):
            self.assertIs(type(values.from_json(values.to_json(given))[0]), kind)

    def test_data_that_no_value_can_be_made_of_fails_for_good(self):
        for what, inner in [("date", "never"), ("set", [{}]), ("set", 5), ("bytes", "x"), ("timedelta", {}),
                            ("dataclass", {"y": 1}), ("enum", "blue")]:
            kind = {"dataclass": "real_jobs:Point", "enum": "real_jobs:Colour"}.get(what)
            with self.subTest(what=what), self.assertRaisesRegex(DataMismatch, f"of type '{kind or what}' cannot be made"):
                values.from_json({"$taskvisor": what, "type": kind, "value": inner})

    def test_json_stays_as_it_is_and_is_not_copied(self):
        value = {"a": [1, 2.5, None, True, "x"], "b": {}}
        self.assertIs(values.to_json(value), value)

    def test_what_cannot_be_written_is_named_with_its_place(self):
        for value, words in [({"a": [datetime.date.min, object()]}, "not JSON: data.a\\[1\\]: object"),
                             ([b"x", float("nan")], "not JSON: data\\[1\\]: nan"),
                             ({b"x": 1, "s": {2}}, "a key of type bytes")]:
            with self.assertRaisesRegex(TypeError, words):
                values.to_json(value)
        deep = [{1}]
        for _ in range(100_000):
            deep = [deep]
        with self.assertRaisesRegex(TypeError, "not JSON"):
            values.to_json(deep)

    def test_data_imports_no_module_and_calls_nothing_but_types_of_values(self):
        sys.modules.pop("this", None)
        for path in ("this:s", "os:system", "subprocess:Popen", "builtins:eval", "real_jobs:add", "real_jobs:Point.x"):
            for kind in ("dataclass", "model", "enum"):
                with self.assertRaisesRegex(TypeError, f"a value of type '{path}' cannot be made here"):
                    values.from_json({"$taskvisor": kind, "type": path, "value": {"command": "false"}})
        self.assertNotIn("this", sys.modules)

    @unittest.skipIf(sys.version_info < (3, 8), "pydantic 2 is for newer versions of Python")
    def test_models_of_pydantic_arrive_as_they_were_or_are_refused(self):
        site = rq_installed.site(PYDANTIC, "pydantic")
        shop = types.ModuleType("shop")
        with mock.patch.dict(sys.modules, shop=shop), mock.patch.object(sys, "path", [*sys.path, site]):
            exec(SHOP, vars(shop))
            # The old one cannot read back bytes that it has written as base64.
            for value in shop.MODELS[:None if sys.version_info >= (3, 10) else -1]:
                with self.subTest(value=value):
                    found = values.from_json(json.loads(frames.strict_json(values.to_json({"order": [value]}))))["order"]
                    self.assertEqual((found, type(found[0])), ([value], type(value)))
            # As versions before this one wrote it.
            old = {"$taskvisor": "model", "type": "shop:Line", "value": {"item": 1, "on": "2026-01-02"}}
            self.assertEqual(values.from_json(old), shop.Line(item=1, on="2026-01-02"))
            with self.assertRaisesRegex(TypeError, "not JSON: the model shop:Login has a secret"):
                values.to_json([shop.Login(words=["pw"])])
            with self.assertRaisesRegex(TypeError, "not JSON: the model shop:File: .*utf-8"):
                values.to_json([shop.File(body=b"\xff")])
            with self.assertRaisesRegex(DataMismatch, "'shop:Line' cannot be made here: ValidationError"):
                values.from_json({**old, "value": {"item": "x"}})

    def test_keys_that_would_be_one_in_json_are_refused(self):
        for value, words in [({1: "a", "1": "b"}, "with the keys 1 and '1', which are the same"),
                             ([{"x": {None: 1, "null": 2}}], "None and 'null'"), ({True: {2}, "true": 3}, "True and 'true'"),
                             ({1.5: 1, "1.5": datetime.date.min}, "1.5 and '1.5'")]:
            with self.subTest(value=value), self.assertRaisesRegex(TypeError, f"^not JSON: data: a dict .*{words}"):
                values.to_json(value)
        self.assertEqual(values.to_json({1: "a", "2": {3: 1}}), {1: "a", "2": {3: 1}})

    def test_key_that_is_an_enum_of_text_is_its_value(self):
        value = {Mode.FAST: 1, "Mode.FAST": 2}
        self.assertEqual(json.loads(frames.encode(values.to_json(value))), {"fast": 1, "Mode.FAST": 2})
        with self.assertRaisesRegex(TypeError, "the same in JSON"):
            values.to_json({Mode.FAST: 1, type("Text", (str,), {"__hash__": object.__hash__})("fast"): 2})

    @unittest.skipIf(sys.version_info < (3, 9), "zoneinfo is of Python 3.9")
    def test_zone_of_a_time_keeps_its_name(self):
        from zoneinfo import ZoneInfo

        vienna = ZoneInfo("Europe/Vienna")
        for value in (datetime.datetime(2026, 7, 1, 12, tzinfo=vienna), datetime.datetime(2026, 10, 25, 2, 30, tzinfo=vienna),
                      datetime.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=vienna), datetime.time(12, 30, tzinfo=vienna),
                      datetime.datetime(2026, 3, 29, 2, 30, tzinfo=vienna)):
            with self.subTest(value=value):
                written = json.loads(frames.strict_json(values.to_json(value)))
                found = values.from_json(written)
                self.assertEqual((found, found.tzinfo, found.fold), (value, vienna, value.fold))
                # Where the zone is not known the moment is the same.
                self.assertEqual(values.from_json({**written, "zone": "No/Where"}).isoformat(), value.isoformat())

    def test_dataclass_is_made_of_its_fields_or_refused_with_what_it_does_not_keep(self):
        import dataclasses

        @dataclasses.dataclass
        class Price:
            kind: typing.ClassVar = "price"
            net: int
            rate: dataclasses.InitVar = 2
            gross: int = dataclasses.field(init=False)

            def __post_init__(self, rate):
                self.gross = self.net * rate

        @dataclasses.dataclass
        class Login:
            password: dataclasses.InitVar
            name: str = ""

        with mock.patch.object(values, "_loaded", return_value=Price):
            found = values.from_json(values.to_json(Price(5)))
        self.assertEqual((found, found.gross), (Price(5), 10))
        with self.assertRaisesRegex(TypeError, "not JSON: the dataclass .*Login does not keep what it is made of: password; .*enc"):
            values.to_json([Login("x")])

    def test_name_of_an_encoder_is_its_own(self):
        for name in ("date", "model", "test.Money"):
            with self.assertRaisesRegex(ValueError, "another type is called"):
                encoder(Values, repr, repr, name=name)
        kind = make_dataclass("Kind", ["a"])
        encoder(kind, lambda value: {"a": value.a}, lambda fields: kind(**fields), name="test.Kind")
        self.assertEqual(values.from_json(values.to_json(kind({1}))), kind({1}))


class Jobs(real.RealTest):
    def test_values_reach_jobs_and_come_back_in_every_mode_and_inline(self):
        def story():
            for value in VALUES:
                name, found = real_jobs.echo.put(value).result(20)
                self.assertEqual((name, found), (type(value).__name__, value))
            self.assertEqual(real_jobs.echo.put(value={1}).info().data, {"value": {1}})

        with inline():
            story()
        for mode in ("prefork", "coroutine"):
            server = self.server(mode=mode)
            story()
            server.stop()

    def test_result_that_cannot_be_kept_leaves_the_job_complete(self):
        def story():
            for kind, words in [("type", "the result is not JSON: result\\[0\\]: type"), ("nan", "result: nan"),
                                ("huge", "the result is too long: 17825794 characters")]:
                id = real_jobs.cannot_be_kept.put(kind)
                self.assertEqual(id.wait(20), "complete")
                with self.assertRaisesRegex(ResultNotKept, f"job {id} is complete, but has no result: .*{words}"):
                    id.result()
                self.assertRegex(id.info().record["result"]["value"], words)
            self.assertEqual(real_jobs.cannot_be_kept_and_goes_on.put().result(20), "done")

        with inline():
            story()
        self.server()
        story()

    def test_type_that_the_worker_has_not_loaded_fails_the_job_for_good(self):
        self.server()
        module = types.ModuleType("elsewhere")
        kind = module.Kind = make_dataclass("Kind", ["a"])
        kind.__module__ = "elsewhere"
        with mock.patch.dict(sys.modules, elsewhere=module):
            with self.assertRaisesRegex(JobFailed, "TypeError: a value of type 'elsewhere:Kind' cannot be made here") as caught:
                real_jobs.echo.put(kind(1)).result(20)
        self.assertEqual(caught.exception.info.attempt, 1)


if __name__ == "__main__":
    support.unittest.main()
