"""The context of `decimal`: where the application has made one, it is an object that all jobs would share."""

from __future__ import annotations

import sys
from contextvars import copy_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def separate() -> None:
    """Gives the job a copy of the application's decimal context. It ends with the job's `contextvars` context."""
    decimal: Any = sys.modules.get("decimal")
    if decimal is None:
        return
    # Not `getcontext`, which would make one.
    for variable, value in copy_context().items():
        if variable.name == "decimal_context":
            decimal.setcontext(value.copy())
            return
