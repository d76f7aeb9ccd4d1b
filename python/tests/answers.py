"""Makes `taskvisor/api/answers.py`, the types of answers, from docs/openapi.json."""

import json
import keyword
import os
import re
import sys

HEAD = '''"""The types of the API's answers: made from docs/openapi.json by the tests; at run time dicts."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, Optional, Union

    from typing_extensions import NotRequired, TypedDict
'''
TAIL = '''
if not TYPE_CHECKING:
    def __getattr__(name):
        """Every answer is a dict, and its parts are what JSON has."""
        if name.startswith("_"):
            raise AttributeError(name)
        return dict
'''
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict[str, Any]"}


def union(kinds):
    """One type for several."""
    kinds = list(dict.fromkeys(kinds))
    rest = [kind for kind in kinds if kind != "None"]
    if rest and all(kind.startswith("Literal[") for kind in rest):
        rest = ["Literal[" + ", ".join(kind[len("Literal["):-1] for kind in rest) + "]"]
    one = rest[0] if len(rest) == 1 else f"Union[{', '.join(rest)}]" if rest else "None"
    return f"Optional[{one}]" if "None" in kinds and rest else one


def kind(schema):
    """The type of a value."""
    if not isinstance(schema, dict):
        return "Any"
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "const" in schema or "enum" in schema:
        return f"Literal[{', '.join(map(json.dumps, schema.get('enum') or [schema['const']]))}]"
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return union(map(kind, schema[word]))
    name = schema.get("type")
    if isinstance(name, list):
        return union(kind({**schema, "type": one}) for one in name)
    if name == "array":
        return f"list[{kind(schema.get('items'))}]"
    more = schema.get("additionalProperties")
    return f"dict[str, {kind(more)}]" if name == "object" and isinstance(more, dict) else PLAIN.get(name, "Any")


def fields(schema, all_of_them):
    """The fields of an object, each with its type and whether it is always there; None if it is none."""
    if "$ref" in schema:
        schema = all_of_them[kind(schema)]
    needed = schema.get("required", ())
    found = {name: (kind(value), name in needed) for name, value in schema.get("properties", {}).items()}
    for word in ("oneOf", "anyOf", "allOf"):
        for part in schema.get(word, ()):
            inner = fields(part, all_of_them)
            if inner is None:
                return None
            for name, (value, always) in inner.items():
                found.setdefault(name, (value, always and word == "allOf"))
    return found or None


def in_words(name, schema):
    """What it is, in a line."""
    text = re.sub(r"\[`?([^\]`]*)`?\](\([^)]*\))?", r"\1", " ".join(schema.get("description", name + " of the API").split()))
    return re.split(r"[.:] ", text + " ")[0].strip(" .").replace("`", "")[:100]


def made(openapi):
    """The text of the module."""
    schemas = openapi["components"]["schemas"]
    aliases, classes = [], []
    for name, schema in sorted(schemas.items()):
        found = fields(schema, schemas)
        if not found:
            aliases.append(f"    #: {in_words(name, schema)}.\n    {name} = {kind(schema)}\n")
            continue
        found = {field: (value if always else f"NotRequired[{value}]") for field, (value, always) in found.items()}
        if any(keyword.iskeyword(field) for field in found):
            rows = "".join(f'        "{field}": {value!r},\n' for field, value in found.items())
            classes.append(f'    #: {in_words(name, schema)}.\n    {name} = TypedDict("{name}", {{\n{rows}    }})\n')
        else:
            rows = "".join(f"        {field}: {value}\n" for field, value in found.items())
            classes.append(f'    class {name}(TypedDict):\n        """{in_words(name, schema)}."""\n\n{rows}')
    return "\n".join([HEAD, *aliases, *classes]) + TAIL


def facts(text):
    """The types in the text of the module: by name, and for an object by the names of its fields, too."""
    found, name = {}, ""
    for line in text.split("\n"):
        head = re.match(r"    (?:class )?(\w+)(?:\(TypedDict\):| = (.*))$", line)
        field = re.match(r"""        ["']?(\w+)["']?: (.*?),?$""", line)
        if head:
            name = head.group(1)
            found[name] = head.group(2) or "TypedDict"
        elif field:
            found[f"{name}.{field.group(1)}"] = field.group(2).strip("'\"")
    return found


def changed(before, after):
    """What is gone or has another type. The API may gain types, fields and words, and loses none."""
    def is_kept(old, new):
        if new is None or old == new:
            return old == new
        words = [set(re.findall(r'"([^"]*)"', kind)) for kind in (old, new)]
        return bool(words[0]) and words[0] <= words[1]

    return {name: (old, after.get(name)) for name, old in before.items() if not is_kept(old, after.get(name))}


def paths():
    """The description and the module; the first is not in a package that was installed."""
    here = os.path.dirname(os.path.abspath(__file__))
    return (os.path.join(here, "..", "..", "docs", "openapi.json"),
            os.path.join(here, "..", "taskvisor", "api", "answers.py"))


if __name__ == "__main__":
    with open(paths()[0], encoding="utf-8") as source:
        text = made(json.load(source))
    with open(paths()[1], "w", encoding="utf-8") as target:
        target.write(text)
    sys.stdout.write(f"{text.count(chr(10))} lines\n")
