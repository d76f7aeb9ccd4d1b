"""Turns the arguments of a call into the data of a job, and the data back into arguments.

It never calls the function. `inspect` is imported only for functions whose code does not say how they are called.
"""

from __future__ import annotations

from types import FunctionType

from ..errors import DataMismatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Sequence
    from typing import Any, Callable, Optional

_VARIADIC, _VARIADIC_NAMED, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x08, 0x20, 0x80, 0x200


def check_target(target: Any) -> None:
    """Raises a TypeError for an object that cannot be a job.

    >>> check_target(lambda: (yield))
    Traceback (most recent call last):
    ...
    TypeError: <lambda> is a generator: called as a job it would do nothing. Return a list, or put a job for each item
    """
    if isinstance(target, (staticmethod, classmethod)):
        raise TypeError(f"@job on a {type(target).__name__}: write @staticmethod above @job, so that it is outermost"
                        if isinstance(target, staticmethod) else
                        "@job on a classmethod: use a function, or a staticmethod with @staticmethod above @job")
    if not callable(target):
        raise TypeError(f"@job is for functions, not for {target!r}")
    if type(target) is not FunctionType:
        return
    code = target.__code__
    if code.co_flags & (_GENERATOR | _ASYNC_GENERATOR):
        raise TypeError(f"{target.__name__} is a generator: called as a job it would do nothing. "
                        "Return a list, or put a job for each item")
    in_class = target.__qualname__.rpartition(".")[0].rpartition(".")[2] not in ("", "<locals>")
    if in_class and code.co_varnames[:min(code.co_argcount, 1)] in (("self",), ("cls",)):
        raise TypeError(f"{target.__qualname__} is a method: a worker would not know of which object. "
                        "Use a function, or a staticmethod with @staticmethod above @job")


def is_async(function: Callable[..., Any]) -> bool:
    """Whether it is an ``async def``, wrapped or not."""
    if type(function) is FunctionType and not function.__dict__:
        return bool(function.__code__.co_flags & _COROUTINE)
    import inspect

    return inspect.iscoroutinefunction(function)


def look_like(wrapped: Any, function: Callable[..., Any], coroutine: bool) -> None:
    """Makes `inspect` and `asyncio` see that the object is an ``async def``, if the function is one.

    Python 3.9's `inspect.iscoroutinefunction` sees it for real functions only.
    """
    if not coroutine:
        return
    if isinstance(function, FunctionType):
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            setattr(wrapped, name, getattr(function, name))
    import asyncio.coroutines
    import inspect

    mark = getattr(inspect, "markcoroutinefunction", None)
    if mark is not None:
        mark(wrapped)
    else:
        wrapped._is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of the function."""
    import inspect

    return inspect.signature(function)


class Shape:
    """The parameters of a plain function. With them most calls need no `inspect`."""

    __slots__ = ("places", "names", "needed")

    def __init__(self, places: int, names: tuple[str, ...], needed: frozenset[str]) -> None:
        #: Number of parameters that can be given as positional arguments.
        self.places: int = places
        self.names: tuple[str, ...] = names
        #: Parameters without a default.
        self.needed: frozenset[str] = needed


def shape(function: Callable[..., Any]) -> Optional[Shape]:
    """The parameters of a function; None if its code does not say how it is called.

    >>> def f(a, b=1, *, c): pass
    >>> found = shape(f)
    >>> found.places, found.names, sorted(found.needed)
    (2, ('a', 'b', 'c'), ['a', 'c'])
    >>> shape(lambda *all: None) is None
    True
    """
    if type(function) is not FunctionType or function.__dict__:
        return None
    code = function.__code__
    # Python 3.7 has no positional-only parameters.
    if getattr(code, "co_posonlyargcount", 0) or code.co_flags & (_VARIADIC | _VARIADIC_NAMED):
        return None
    places = code.co_argcount
    names = code.co_varnames[:places + code.co_kwonlyargcount]
    needed = set(names[:places - len(function.__defaults__ or ())])
    needed.update(name for name in names[places:] if name not in (function.__kwdefaults__ or {}))
    return Shape(places, names, frozenset(needed))


def plainly(shape: Shape, data: Any) -> Optional[tuple[Sequence[Any], dict[str, Any]]]:
    """The arguments for the data of a job, or None if the data does not fit.

    >>> found = shape(lambda a, b=1: None)
    >>> plainly(found, {"a": 1}), plainly(found, [1, 2])
    (((), {'a': 1}), ([1, 2], {}))
    >>> plainly(found, {"b": 1}), plainly(found, [1, 2, 3])
    (None, None)
    """
    needed = shape.needed
    if isinstance(data, dict):
        for name in data:
            if name not in shape.names:
                return None
        return ((), data) if needed <= data.keys() else None
    if data is None:
        args: Sequence[Any] = ()
    elif isinstance(data, list):
        args = data
    else:
        args = (data,)
    if len(args) > shape.places or needed and not needed.issubset(shape.names[:len(args)]):
        return None
    return args, {}


def to_data(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The data of a job for a call: an object from name to argument, or a list for ``*args``.

    >>> to_data(signature(lambda a, b=2: None), (1,), {})
    {'a': 1}
    >>> to_data(signature(lambda *all: None), (1, 2), {})
    [1, 2]
    """
    from inspect import Parameter

    bound = signature.bind(*args, **kwargs)
    if not kwargs and any(p.kind is Parameter.VAR_POSITIONAL for p in signature.parameters.values()):
        return list(args)
    data: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            data[name] = value
        elif kind is Parameter.VAR_POSITIONAL:
            raise TypeError(f"*{name} cannot be sent together with named arguments")
        else:
            clash = next((key for key in value if key in signature.parameters), None)
            if clash is not None:
                raise TypeError(f"two arguments are named {clash!r}")
            data.update(value)
    return data


def from_data(name: str, signature: inspect.Signature, data: Any) -> inspect.BoundArguments:
    """The arguments for the data of a job; DataMismatch if the function cannot be called with them.

    >>> from_data("f", signature(lambda a, b=2: None), {"a": 1}).args
    (1,)
    """
    from inspect import Parameter

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(data, dict):
        only = [p.name for p in signature.parameters.values() if p.kind is Parameter.POSITIONAL_ONLY]
        args = tuple(data[key] for key in only if key in data)
        kwargs = {key: value for key, value in data.items() if key not in only} if only else data
    elif isinstance(data, list):
        args = tuple(data)
    elif data is not None:
        args = (data,)
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise DataMismatch(f"the data does not fit {name}{signature}: {error}") from None
