"""Input files to plain values that remember their lines: YAML with several documents, or JSON.

Files come from strangers, so everything is bounded before it is built: size, depth, aliases. JSON is decoded by msgspec
at full speed, without positions; lines in the valid text are looked up without recursion when an error needs them.
Every command that takes ``-f`` reads through here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from typing import BinaryIO

import msgspec

from hostler.config.key_paths import Path, quote
from hostler.config.yaml_tree import MAX_DEPTH, Tree, parse_yaml
from hostler.errors import DuplicateNameError, InputError

__all__ = [
    "FILE_ENDINGS", "MAX_JSON_BYTES", "MAX_YAML_BYTES", "Document", "Place", "find_duplicate", "find_item_lines",
    "find_line", "kind_of", "parse_documents", "read_documents", "with_folder_files",
]  # fmt: skip

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]|[^][{}:,\s"]+')


def find_line(text: str, path: Path) -> int | None:
    """Return the line where the value at ``path`` is named, or the nearest line around it."""
    best: int | None = None
    for found, line in _entries(text):
        if found == path[: len(found)]:  # parents come before what they hold
            best = line
            if len(found) == len(path):
                break
    return best


def find_item_lines(text: str, path: Path) -> list[int]:
    """Return the lines of all items of the list at ``path``, in one go."""
    depth = len(path)
    return [
        line
        for found, line in _entries(text)
        if len(found) == depth + 1 and isinstance(found[-1], int) and found[:depth] == path
    ]


def find_duplicate(text: str) -> tuple[str, int, int] | None:
    """Return the first duplicate key in one object, with both lines."""
    seen: dict[Path, int] = {}
    for path, line in _entries(text):
        if path and isinstance(path[-1], str):
            if path in seen:
                return path[-1], seen[path], line
            seen[path] = line
    return None


def _entries(text: str) -> Iterator[tuple[Path, int]]:
    """Yield the path of every value with the line of its key, or of itself in a list."""
    stack: list[str | int] = []
    line, position = 1, 0
    expects_key = False
    yield_item = True
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        token = match[0]
        if expects_key and token[0] == '"':
            stack[-1] = json.loads(token)
            yield tuple(stack), line
            expects_key = yield_item = False
            continue
        if yield_item and token not in ("]", "}", ",", ":"):
            yield tuple(stack), line
            yield_item = False
        if token == "{":
            stack.append("")
            expects_key = True
        elif token == "[":
            stack.append(0)
            yield_item = True
        elif token in ("}", "]"):
            stack.pop()
            expects_key = yield_item = False
        elif token == "," and isinstance(stack[-1], int):
            stack[-1] += 1
            yield_item = True
        elif token == ",":
            expects_key = True


MAX_YAML_BYTES = 16 * 2**20
MAX_JSON_BYTES = 2**30
STANDARD_INPUT = "-"
FILE_ENDINGS = (".yaml", ".yml", ".json")

_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_TOO_DEEP_HINT = "is this a file for Hostler at all?"


class Document(msgspec.Struct, frozen=True, eq=False):
    """One document: plain values (read only: aliases share them), and where it came from."""

    data: object
    source: str
    index: int = 0
    _tree: Tree | None = None  # of YAML
    _text: str | None = None  # of JSON, where it is small enough to look lines up

    def __repr__(self) -> str:
        return f"Document({self.source!r}, index={self.index})"

    def line_of(self, path: Path) -> int | None:
        """Return the line of the value at ``path``, or of the nearest one around it; None when not known."""
        if self._tree is None:
            return find_line(self._text, path) if self._text is not None else None
        line, value = self._tree.line, self._tree.data
        for step in path:
            table = self._tree.lines.get(id(value))
            if isinstance(table, dict) and isinstance(value, dict) and step in table:
                line = table[str(step)]
                value = value[step]
            elif isinstance(table, list) and isinstance(value, list) and isinstance(step, int) and step < len(table):
                line = table[step]
                value = value[step]
            else:
                break
        return line

    def where(self, path: Path = ()) -> str:
        """Return ``file:line``, or the file alone where the line is not known."""
        line = self.line_of(path)
        return self.source if line is None else f"{self.source}:{line}"

    def where_items(self, path: Path, count: int) -> list[str]:
        """Return ``where`` of the first ``count`` items of the list at ``path``; of JSON they are found in one go."""
        if self._text is None:
            return [self.where((*path, index)) for index in range(count)]
        return [f"{self.source}:{line}" for line in find_item_lines(self._text, path)[:count]]


Place = tuple[Document, Path]  # where something stands


def read_documents(sources: Sequence[str]) -> list[Document]:
    """Read all documents of all files, in order; ``-`` means standard input."""
    if list(sources).count(STANDARD_INPUT) > 1:
        raise InputError("standard input is named twice", hint="give '-' once")
    documents: list[Document] = []
    for source in sources:
        name = "<stdin>" if source == STANDARD_INPUT else source
        documents.extend(parse_documents(_read_bytes(source, name), name))
    return documents


def with_folder_files(sources: Sequence[str]) -> list[str]:
    """Replace each folder by its YAML and JSON files in order of name; hidden files and subfolders do not count."""
    found: list[str] = []
    for source in sources:
        if source == STANDARD_INPUT or not _is_folder(source):
            found.append(source)
            continue
        files = _files_of(source)
        if not files:
            raise InputError(f"{source}: the folder has no .yaml, .yml or .json file", hint=_hint_without_files(source))
        found += files
    return found


def parse_documents(content: bytes, source: str) -> list[Document]:
    """Parse the documents of one file; ``source`` names it in errors."""
    content = content.removeprefix(_BOM)
    if _looks_like_json(content) and (document := _parse_json(content, source)) is not None:
        return [document]
    if len(content) > MAX_YAML_BYTES:
        raise _too_large(source, is_json=False)
    documents = [
        Document(tree.data, source, index, tree)
        for index, tree in enumerate(parse_yaml(_decode(content, source), source))
        if tree.data is not None
    ]
    if not documents:
        raise InputError(f"{source}: the file is empty", hint="it needs at least one document with 'kind' and content")
    return documents


def kind_of(document: Document) -> tuple[str, str]:
    """Return the document's ``apiVersion`` and ``kind``."""
    data = document.data
    hint = "a file of Hostler begins with 'apiVersion: hostler/v1' and 'kind: Fleet'"
    if not isinstance(data, dict):
        shown = "a list" if isinstance(data, list) else "a single value"
        raise InputError(f"{document.where()}: the document must be a mapping, not {shown}", hint=hint)
    for key in ("apiVersion", "kind"):
        if key not in data:
            raise InputError(f"{document.where()}: the document has no {key!r}", hint=hint)
        if not isinstance(data[key], str):
            raise InputError(f"{document.where((key,))}: {key} must be a string", hint=hint)
    return data["apiVersion"], data["kind"]


def _read_bytes(source: str, name: str) -> bytes:
    if source == STANDARD_INPUT:
        return _read_bounded(sys.stdin.buffer, name)
    try:
        path = FilePath(source)
        if path.is_dir():
            files = _files_of(source)
            raise InputError(
                f"{name}: this is a folder", hint="name a file" + (f", for example {files[0]}" if files else "")
            )
        with path.open("rb") as stream:
            return _read_bounded(stream, name)
    except (OSError, ValueError) as error:
        problem = (getattr(error, "strerror", None) or str(error)).lower()
        hint = "check the path" if isinstance(error, FileNotFoundError) else "check the path and its permissions"
        raise InputError(f"{quote(name, marks='')}: cannot be read: {problem}", hint=hint) from None


def _is_folder(source: str) -> bool:
    try:
        return FilePath(source).is_dir()
    except (OSError, ValueError):  # reading it says what is wrong
        return False


def _files_of(folder: str) -> list[str]:
    """Return the files of a folder that may hold documents, as ``folder/name``, in order of name."""
    base = folder if folder.endswith("/") else f"{folder}/"
    return [f"{base}{path.name}" for path in _entries_of(folder) if path.suffix in FILE_ENDINGS and path.is_file()]


def _entries_of(folder: str) -> list[FilePath]:
    try:
        return sorted(path for path in FilePath(folder).iterdir() if not path.name.startswith("."))
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(f"{folder}: cannot be read: {problem}", hint="check the folder's permissions") from None


def _hint_without_files(folder: str) -> str:
    """Name a subfolder that has what the folder lacks."""
    below = next((path for path in _entries_of(folder) if path.is_dir() and _files_of(str(path))), None)
    return f"subfolders are not read: name one, for example -f {below}" if below else "name a file, or another folder"


def _read_bounded(stream: BinaryIO, name: str) -> bytes:
    """Read a whole stream, but never much more than what its format allows."""
    content = stream.read(MAX_YAML_BYTES + 1)
    if len(content) <= MAX_YAML_BYTES:
        return content
    if not _looks_like_json(content.removeprefix(_BOM)):
        raise _too_large(name, is_json=False)
    parts, size = [content], len(content)
    while part := stream.read(MAX_YAML_BYTES):
        parts.append(part)
        size += len(part)
        if size > MAX_JSON_BYTES:
            raise _too_large(name, is_json=True)
    return b"".join(parts)


def _too_large(name: str, *, is_json: bool) -> InputError:
    if is_json:
        return InputError(f"{name}: it is larger than {MAX_JSON_BYTES >> 30} GiB", hint="split it into several files")
    return InputError(
        f"{name}: it is larger than {MAX_YAML_BYTES >> 20} MiB, the most for YAML",
        hint="write it as JSON (up to 1 GiB), or use 'count' for equal hosts and guests",
    )


def _looks_like_json(content: bytes) -> bool:
    return content[:4096].lstrip(_BLANK)[:1] in (b"{", b"[")


def _parse_json(content: bytes, source: str) -> Document | None:
    """Decode JSON; return None when it may still be YAML in flow style."""
    is_small = len(content) <= MAX_YAML_BYTES
    try:
        data = msgspec.json.decode(content)
        if _is_too_deep(data):
            raise RecursionError
    except RecursionError:
        raise InputError(f"{source}: it is nested more than {MAX_DEPTH} levels deep", hint=_TOO_DEEP_HINT) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if is_small:
            return None
        raise InputError(f"{source}: this is not valid JSON: {error}", hint="check it with a JSON tool") from None
    if not is_small:
        return Document(data, source)
    text = _decode(content, source)
    _refuse_duplicates(text, source)
    return Document(data, source, _text=text)


def _is_too_deep(data: object) -> bool:
    """Say whether containers nest deeper than the limit (level by level, about 50 ns a value)."""
    level = [data]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                below += [v for v in value.values() if isinstance(v, dict | list)]
            elif isinstance(value, list):
                below += [v for v in value if isinstance(v, dict | list)]
        if not below:
            return False
        level = below
    return True


def _refuse_duplicates(text: str, source: str) -> None:
    """Reject a duplicate key in one object (msgspec takes the last). Files over 16 MiB are not checked."""
    has_duplicates = False

    def look(pairs: list[tuple[str, object]]) -> None:
        nonlocal has_duplicates
        has_duplicates = has_duplicates or len({key for key, _ in pairs}) < len(pairs)

    json.loads(text, object_pairs_hook=look)
    if has_duplicates and (found := find_duplicate(text)) is not None:
        key, first, second = found
        raise DuplicateNameError(
            f"{source}:{second}: key {quote(key)} appears twice in one mapping, first in line {first}",
            hint="keep one of them",
        )


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}:{line}: the file is not UTF-8 text", hint="save it as UTF-8") from None
