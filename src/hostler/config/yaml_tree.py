"""YAML text to plain values with line numbers, safely.

PyYAML's own constructors recurse, expand aliases without a limit and read YAML 1.1 (``no`` is false, ``0777``
is 511). So this module takes the parser's events only and builds the values itself, without recursion: the
depth of nesting and what aliases and merge keys copy are bounded, a key may stand once in a mapping, keys are
strings, and plain scalars follow the core schema of YAML 1.2, only stricter: dates, octal and hexadecimal
numbers and ``1e3`` stay strings. Used by :mod:`hostler.config.documents`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import yaml

from hostler.config.key_paths import quote
from hostler.errors import DuplicateNameError, InputError

__all__ = ["MAX_COPIED_NODES", "MAX_DEPTH", "MAX_DOCUMENTS", "Tree", "parse_yaml", "resolve_plain"]

MAX_DEPTH = 100  # a Kubernetes manifest has about 20 levels
MAX_DOCUMENTS = 100_000  # of one file
MAX_COPIED_NODES = 1_000_000  # what all aliases and merge keys of one file may stand for

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "null": (type(None),),
}
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_SPECIAL: Final = re.compile(r"(?P<infinite>[-+]?\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)")
# More digits than any amount has; a longer one stays a string, which every check rejects.
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,99})")
# An exponent needs a point or a sign, as in YAML 1.1: 12e5678 is a commit, and "1e3" as text is an amount.
_WHOLE: Final = r"(?:0|[1-9][0-9]*)"
_FLOAT: Final = re.compile(rf"[-+]?(?:(?:{_WHOLE}\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|{_WHOLE}[eE][-+][0-9]+)")
_LINE_END: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # as YAML counts lines
_TAB_INDENT: Final = re.compile(r"[ -]*\t")


class Tree:
    """One document: its values, its first line, and the lines of each container's entries (by identity)."""

    __slots__ = ("data", "line", "lines")

    def __init__(self, data: object, line: int, lines: dict[int, dict[str, int] | list[int]]) -> None:
        self.data = data
        self.line = line
        self.lines = lines


class _Frame:
    """A mapping or list that is being filled; ``size`` counts nodes, ``height`` levels, itself included."""

    __slots__ = ("anchor", "entries", "height", "items", "key", "key_line", "line", "lines", "merges", "size")

    def __init__(self, is_mapping: bool, anchor: str | None, line: int) -> None:
        self.entries: dict[str, object] | None = {} if is_mapping else None
        self.items: list[object] = []
        self.lines: dict[str, int] | list[int] = {} if is_mapping else []
        self.key: str | None = None
        self.key_line = 0
        self.merges: list[tuple[object, int]] = []
        self.anchor = anchor
        self.line = line
        self.size = 1
        self.height = 1


def parse_yaml(text: str, source: str) -> Iterator[Tree]:
    """Yield the documents of a YAML text one by one; ``source`` names the file in errors."""
    builder = _Builder(source)
    count = 0
    try:
        for event in yaml.parse(text, Loader=_Loader):
            if (tree := builder.take(event)) is None:
                continue
            count += 1
            if count > MAX_DOCUMENTS:
                problem = f"it has more than {MAX_DOCUMENTS:,} documents"
                raise InputError(f"{source}: {problem}", hint="put more into one document")
            yield tree
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        problem, hint = quote(error.problem or "it does not parse", marks=""), "check indentation and quotes"
        if mark and _is_indented_with_tab(text, mark.line):
            problem, hint = "the line is indented with a tab", "indent with spaces"
        raise InputError(f"{where}: this is not valid YAML: {problem}", hint=hint) from None
    except yaml.YAMLError as error:
        position = getattr(error, "position", "unknown")
        raise InputError(
            f"{source}: it has a character that YAML does not allow (at position {position})",
            hint="is it a text file at all?",
        ) from None


def _is_indented_with_tab(text: str, number: int) -> bool:
    """Say whether a tab stands before the first word of a line, counted from 0; YAML allows spaces only."""
    lines = _LINE_END.split(text)
    return number < len(lines) and _TAB_INDENT.match(lines[number]) is not None


class _Builder:
    """Builds documents from parser events with a stack of its own."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[object, int, int]] = {}  # name to value, size, height
        self._lines: dict[int, dict[str, int] | list[int]] = {}
        self._root: object = None
        self._line = 1
        self._copied = 0

    def take(self, event: yaml.Event) -> Tree | None:
        """Take one event; return the tree when a document ends."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.ScalarEvent):
            is_plain = event.implicit[0]
            value = resolve_plain(event.value) if is_plain else self._tagged(event, line)
            if event.anchor:
                self._anchors[event.anchor] = (value, 1, 0)
            self._add(value, line, 1, 0, is_merge=is_plain and event.value == "<<")
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._open(event, line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._close()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "", line)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors, self._lines, self._root, self._line = {}, {}, None, line
        elif isinstance(event, yaml.DocumentEndEvent):
            return Tree(self._root, self._line, self._lines)
        return None

    def _tagged(self, event: yaml.ScalarEvent, line: int) -> object:
        """Return the value of a quoted scalar, or of one with a tag of the core schema."""
        tag = event.tag
        if event.implicit[1] or tag in ("!", f"{_TAG}str"):
            return event.value
        value = resolve_plain(event.value)
        name = (tag or "").removeprefix(_TAG)
        if name not in _TYPES:
            raise self._error(line, f"tag {quote(tag or '')} is not supported", "leave the tag away")
        if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "bool"):
            raise self._error(line, f"{quote(event.value)} is no {name}", "leave the tag away")
        return value

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, line: int) -> None:
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", f"{_TAG}{'map' if is_mapping else 'seq'}"):
            raise self._error(line, f"tag {quote(event.tag)} is not supported", "leave the tag away")
        if len(self._stack) >= MAX_DEPTH:
            raise self._too_deep(line)
        if self._stack and self._stack[-1].entries is not None and self._stack[-1].key is None:
            raise self._error(line, "a key is a list or a mapping", "keys are strings")
        if event.anchor:
            self._anchors.pop(event.anchor, None)
        self._stack.append(_Frame(is_mapping, event.anchor, line))

    def _close(self) -> None:
        frame = self._stack.pop()
        for value, line in frame.merges:
            self._merge(frame, value, line)
        value = frame.items if frame.entries is None else frame.entries
        self._lines[id(value)] = frame.lines
        if frame.anchor:
            self._anchors[frame.anchor] = (value, frame.size, frame.height)
        self._add(value, frame.line, frame.size, frame.height)

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self._anchors:
            problem = f"alias {quote('*' + anchor)} names no anchor that ends before it"
            raise self._error(line, problem, f"declare {quote('&' + anchor)} first")
        value, size, height = self._anchors[anchor]
        self._count_copied(size, line)
        if len(self._stack) + height > MAX_DEPTH:
            raise self._too_deep(line)
        self._add(value, line, size, height)

    def _add(self, value: object, line: int, size: int, height: int, *, is_merge: bool = False) -> None:
        """Put a finished value where it belongs: the document's root, the next item, a key or its value."""
        if not self._stack:
            self._root = value
            return
        frame = self._stack[-1]
        frame.size += size
        if height >= frame.height:
            frame.height = height + 1
        if isinstance(frame.lines, list) or frame.entries is None:
            frame.items.append(value)
            assert isinstance(frame.lines, list)
            frame.lines.append(line)
        elif frame.key is None:
            self._take_key(frame.lines, frame, value, line, is_merge)
        else:
            if frame.key_line < 0:
                frame.merges.append((value, line))
            else:
                frame.entries[frame.key] = value
            frame.key = None

    def _take_key(self, lines: dict[str, int], frame: _Frame, key: object, line: int, is_merge: bool) -> None:
        if not isinstance(key, str):
            shown = "null" if key is None else quote(str(key).lower(), marks="")
            raise self._error(line, f"key {shown} is not a string", "put it in quotes")
        if is_merge:
            if frame.merges:
                raise self._error(line, "a mapping has two merge keys", "write one: <<: [*first, *second]")
            frame.key, frame.key_line = key, -1
            return
        if key in lines:
            problem = f"key {quote(key)} appears twice in one mapping, first in line {lines[key]}"
            raise DuplicateNameError(f"{self._source}:{line}: {problem}", hint="keep one of them")
        frame.key, frame.key_line = key, line
        lines[key] = line

    def _merge(self, frame: _Frame, value: object, line: int) -> None:
        """Copy the entries that a merge key names; the mapping's own entries win, then the first named."""
        assert frame.entries is not None
        assert isinstance(frame.lines, dict)
        for mapping in value if isinstance(value, list) else [value]:
            if not isinstance(mapping, dict):
                raise self._error(line, "a merge key needs a mapping or a list of mappings", "write <<: *anchor")
            self._count_copied(len(mapping), line)
            known = self._lines[id(mapping)]
            assert isinstance(known, dict)
            for key, entry in mapping.items():
                if key not in frame.entries:
                    frame.entries[key] = entry
                    frame.lines[key] = known[key]

    def _count_copied(self, nodes: int, line: int) -> None:
        self._copied += nodes
        if self._copied > MAX_COPIED_NODES:
            raise self._error(
                line,
                f"aliases stand for more than {MAX_COPIED_NODES:,} values",
                "write it with fewer aliases, or use 'count'",
            )

    def _too_deep(self, line: int) -> InputError:
        return self._error(
            line, f"it is nested more than {MAX_DEPTH} levels deep", "is this a file for Hostler at all?"
        )

    def _error(self, line: int, message: str, hint: str) -> InputError:
        return InputError(f"{self._source}:{line}: {message}", hint=hint)


def resolve_plain(text: str) -> object:
    """Read a scalar without quotes by the core schema of YAML 1.2; octal numbers stay strings."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-.":
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if special := _SPECIAL.fullmatch(text):
        return float(text.replace(".", "")) if special["infinite"] else float("nan")
    return text
