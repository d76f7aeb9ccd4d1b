"""From a call to the data of a job, and back from data to a call."""

from __future__ import annotations

import inspect
from typing import Any

from .errors import DataMismatch

_NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def to_data(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What is sent for a call: an object from name to argument, or a list for ``*args``.

    >>> to_data(inspect.signature(lambda a, b=2: None), (1,), {})
    {'a': 1}
    >>> to_data(inspect.signature(lambda *all: None), (1, 2), {})
    [1, 2]
    """
    bound = signature.bind(*args, **kwargs)
    if not kwargs and any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in signature.parameters.values()):
        return list(args)
    data: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind in _NAMED:
            data[name] = value
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            raise TypeError(f"*{name} cannot be sent together with named arguments")
        else:
            clash = next((key for key in value if key in signature.parameters), None)
            if clash is not None:
                raise TypeError(f"two arguments are named {clash!r}")
            data.update(value)
    return data


def from_data(name: str, signature: inspect.Signature, data: Any) -> inspect.BoundArguments:
    """The call for some data; DataMismatch if the function cannot be called so.

    >>> from_data("f", inspect.signature(lambda a, b=2: None), {"a": 1}).args
    (1,)
    """
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(data, dict):
        only = [p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.POSITIONAL_ONLY]
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
