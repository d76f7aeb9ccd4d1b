"""Names that were probably meant: as the program suggests them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional


def suggestion(typed: str, known: list[str]) -> Optional[str]:
    """The known name that was probably meant, or all of them.

    >>> suggestion("mial", ["default", "mail"]), suggestion("x", ["mail"]), suggestion("x", [])
    ("did you mean 'mail'?", 'known here: mail', None)
    """
    if not known:
        return None
    distance, best = min((_distance(typed, name), name) for name in known)
    # One typing error in a short word, more in a longer one.
    return f"did you mean '{best}'?" if distance <= 1 + len(typed) // 4 else f"known here: {', '.join(known)}"


def _distance(a: str, b: str) -> int:
    """Number of letters to insert, drop or replace to turn one word into the other (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        corner, row[0] = row[0], i + 1
        for j, y in enumerate(b):
            corner, row[j + 1] = row[j + 1], min(corner + (x != y), row[j + 1] + 1, row[j] + 1)
    return row[-1]
