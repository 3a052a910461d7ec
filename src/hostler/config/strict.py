"""Plain values to the structs that describe a file, with errors that a person can act on.

msgspec checks types and unknown keys and says where in its own words; this module turns that into
``fleet.yaml:7: unknown key 'cpus' in hosts[0]`` with the nearest known key as a hint. Readers of our own
formats use it.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Final, TypeVar

import msgspec

from hostler.config.documents import Document
from hostler.config.key_paths import Path, describe_path, did_you_mean, quote
from hostler.errors import HostlerError, InputError
from hostler.model.nearest_names import nearest_name
from hostler.model.resources import COMMON_RESOURCES

__all__ = ["convert", "invalid", "with_location"]

T = TypeVar("T")

_MESSAGE: Final = re.compile(r"(?P<text>.*?)(?: - at (?:`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(?P<key>[A-Za-z_][A-Za-z0-9_]*)|\[(?P<index>[0-9]+)\]|\[\.\.\.\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<key>.*)`", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(?P<key>.*)`")
_MISTYPED: Final = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<got>[^`]*)`")
_AMOUNTS: Final = ("capacity", "requests")  # keys of hosts and guests under which their resources stand
_EXPONENT: Final = re.compile(r"[0-9]+(\.[0-9]*)?[eE][+-]?[0-9]+")
_NOUNS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "null": "empty",
    "object": "a mapping",
    "array": "a list",
}
_KINDS: Final = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "array",
    dict: "object",
}
_GOT: Final = {**_NOUNS, "int": "a number", "float": "a number with a fraction"}


def convert(document: Document, data: object, into: type[T], path: Path = ()) -> T:
    """Convert plain values at ``path`` of a document into a struct; errors name file, line and key."""
    try:
        return msgspec.convert(data, into)
    except msgspec.ValidationError as error:
        problem = str(error)
    except RecursionError:
        raise invalid(document, path, "is nested too deeply") from None
    raise _explain(document, data, into, path, problem)


def with_location(document: Document, path: Path, error: HostlerError) -> HostlerError:
    """Return an error of the same class with file, line and path before its message."""
    return type(error)(f"{document.where(path)}: {describe_path(path)}: {error.message}", hint=error.hint)


def invalid(document: Document, path: Path, problem: str, *, hint: str = "") -> InputError:
    """Build an InputError that says ``file:line: path problem``."""
    return InputError(f"{document.where(path)}: {describe_path(path)} {problem}", hint=hint)


def _explain(document: Document, data: object, into: type, path: Path, problem: str) -> InputError:
    match = _MESSAGE.fullmatch(problem)
    text = match["text"] if match else problem
    inner = _resolve(data, match["path"] if match and match["path"] else "", text)
    full = path + inner
    if unknown := _UNKNOWN.fullmatch(text):
        key = unknown["key"]
        place = f"in {describe_path(full)}" if full else "at the top level"
        return InputError(
            f"{document.where((*full, key))}: unknown key {quote(key)} {place}",
            hint=_unknown_key_hint(key, _fields_at(into, inner)),
        )
    if missing := _MISSING.fullmatch(text):
        return invalid(document, full, f"has no {quote(missing['key'])}", hint=f"add the key {quote(missing['key'])}")
    if mistyped := _MISTYPED.fullmatch(text):
        expected = " or ".join(_NOUNS.get(word, word) for word in mistyped["expected"].split(" | "))
        got = mistyped["got"]
        value = _value_at(data, inner)
        hint = _type_hint(expected, got) or _selector_hint(full, value) or _exponent_hint(value)
        return invalid(document, full, f"must be {expected}, not {_GOT.get(got, got)}", hint=hint)
    if text.startswith("Invalid enum value"):
        choices = _choices_at(into, inner)
        value = _value_at(data, inner)
        return invalid(document, full, f"is {quote(str(value))}", hint=f"one of: {', '.join(choices)}")
    limit = text.replace("Expected `int`", "must be an integer").replace("Expected `float`", "must be a number")
    return invalid(document, full, limit.replace("`", ""))


def _unknown_key_hint(key: str, fields: list[str]) -> str:
    """Return the nearest key; of a resource that stands beside the mapping of amounts, the key of that mapping, too."""
    amounts = next((field for field in _AMOUNTS if field in fields), "")
    if amounts and not nearest_name(key, fields) and (resource := nearest_name(key, COMMON_RESOURCES)):
        return f"did you mean {amounts}: {{{resource}: …}}?"
    return did_you_mean(key, fields)


def _type_hint(expected: str, got: str) -> str:
    if got == "null":
        return "give it a value, or remove the key"
    if "a string" in expected and got in ("int", "float", "bool"):
        return "put it in quotes"
    return ""


def _selector_hint(path: Path, value: object) -> str:
    """Say how a selector of Kubernetes is written here: labels stand in it without a key around them."""
    if not path or path[-1] != "matchLabels" or not isinstance(value, dict):
        return ""
    return f"write {{{', '.join(f'{key}: {label}' for key, label in list(value.items())[:3])}}}, without 'matchLabels'"


def _exponent_hint(value: object) -> str:
    """Say how a number with an exponent is written: YAML takes 1e3 for a text."""
    if not isinstance(value, str) or not _EXPONENT.fullmatch(value):
        return ""
    number, exponent = value.lower().split("e")
    return f"write {number if '.' in number else f'{number}.0'}e{exponent if exponent[0] in '+-' else f'+{exponent}'}"


def _resolve(data: object, text: str, problem: str) -> Path:
    """Turn msgspec's path into ours; it writes a mapping's key as ``[...]``, so that one is looked for."""
    path: list[str | int] = []
    value = data
    mistyped = _MISTYPED.fullmatch(problem)
    steps = list(_STEP.finditer(text))
    for match, following in zip_longest(steps, steps[1:]):
        step: str | int
        if match["key"] is not None:
            step = match["key"]
        elif match["index"] is not None:
            step = int(match["index"])
        elif isinstance(value, dict):
            if following is not None:
                wanted = "object" if following["index"] is None else "array"
            else:
                wanted = mistyped["got"] if mistyped else ""
            step = next((key for key, entry in value.items() if _kind(entry) == wanted), "")
        else:
            break
        path.append(step)
        value = _value_at(value, (step,))
    return tuple(path)


def _kind(value: object) -> str:
    """Name a value's type as msgspec does."""
    return _KINDS.get(type(value), "")


def _value_at(data: object, path: Path) -> object:
    for step in path:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def _types_at(into: type, path: Path) -> list[msgspec.inspect.Type]:
    """Return the types that may stand at a path below ``into``."""
    types = _alternatives(msgspec.inspect.type_info(into))
    for step in path:
        below: list[msgspec.inspect.Type] = []
        for kind in types:
            if isinstance(kind, msgspec.inspect.StructType):
                below += [f.type for f in kind.fields if f.encode_name == step]
            elif isinstance(kind, msgspec.inspect.CollectionType):
                below.append(kind.item_type)
            elif isinstance(kind, msgspec.inspect.DictType):
                below.append(kind.value_type)
        types = [one for kind in below for one in _alternatives(kind)]
    return types


def _alternatives(kind: msgspec.inspect.Type) -> list[msgspec.inspect.Type]:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _alternatives(kind.type)
    return list(kind.types) if isinstance(kind, msgspec.inspect.UnionType) else [kind]


def _fields_at(into: type, path: Path) -> list[str]:
    structs = [kind for kind in _types_at(into, path) if isinstance(kind, msgspec.inspect.StructType)]
    return [f.encode_name for struct in structs for f in struct.fields]


def _choices_at(into: type, path: Path) -> list[str]:
    literals = [kind for kind in _types_at(into, path) if isinstance(kind, msgspec.inspect.LiteralType)]
    return [str(value) or "''" for literal in literals for value in literal.values]
