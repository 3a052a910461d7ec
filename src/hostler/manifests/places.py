"""Where in which object: the names and paths that errors and notes carry, and the notes themselves.

Code deep inside knows only the path of a field; :func:`about` adds the object around it, so that a
message reads ``pod default/a: spec.containers[0].resources.requests.cpu: amount 'x' is not a quantity``.
Used by every module here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from hostler.errors import InputError, QuantityError
from hostler.manifests.metadata import Metadata, Quantity
from hostler.model import parse_resource

__all__ = [
    "DEFAULT_NAMESPACE",
    "Note",
    "about",
    "check_count",
    "check_key",
    "check_keys",
    "check_name",
    "child",
    "node_place",
    "object_place",
    "parse_quantities",
    "pod_place",
    "version_of",
]

DEFAULT_NAMESPACE = "default"

_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_MAX_INT32 = 2**31 - 1  # Kubernetes counts in 32 bits
_MAX_NAME = 253  # characters, as in Kubernetes
_MAX_VERSION_DIGITS = 18  # fits 64 bits


class Note(msgspec.Struct, frozen=True):
    """Something that was read but does not count: which object, which field, and what about it."""

    object: str
    field: str
    text: str

    def line(self) -> str:
        """Write the note in one line."""
        return f"{self.object}: {self.field} {self.text}" if self.field else f"{self.object} {self.text}"


@contextmanager
def about(place: str, joint: str = ": ") -> Iterator[None]:
    """Put the object's name, or a path, in front of an input error raised inside."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{place}{joint}{error.message}", hint=error.hint) from error


def child(path: str, key: str) -> str:
    """Extend a path by a key: ``requests.cpu``, but ``requests[nvidia.com/gpu]``."""
    if not path:
        return key
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{key}]"


def node_place(name: str) -> str:
    """Name a node as errors and notes do."""
    return f"node {name}" if name else "a node without a name"


def pod_place(namespace: str, name: str) -> str:
    """Name a pod as errors and notes do."""
    return f"pod {namespace or DEFAULT_NAMESPACE}/{name}" if name else "a pod without a name"


def object_place(kind: str, namespace: str, name: str) -> str:
    """Name any other object as errors and notes do; what belongs to no namespace has none."""
    if not name:
        return kind
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def parse_quantities(values: Mapping[str, Quantity], path: str) -> dict[str, int]:
    """Parse a resource list, cpu in milli; an error names the resource's path."""
    parsed: dict[str, int] = {}
    for name, value in values.items():
        try:
            parsed[name] = parse_resource(name, value)
        except QuantityError as error:
            raise QuantityError(f"{child(path, name)}: {error.message}", hint=error.hint) from error
    return parsed


def check_count(number: int, path: str, *, least: int = 1) -> int:
    """Refuse a number of things that Kubernetes would not take."""
    if not least <= number <= _MAX_INT32:
        raise InputError(f"{path}: {number} is not between {least} and 2^31 - 1")
    return number


def check_name(name: str, path: str) -> None:
    """Refuse a name that Kubernetes would not take and that could not be read again; one that is missing is no name."""
    if len(name) > _MAX_NAME:
        raise InputError(f"{path}: it is longer than {_MAX_NAME} characters", hint="choose a shorter name")
    if "/" in name or " " in name or not name.isprintable():
        shown = name[:60].encode("unicode_escape").decode() if not name.isprintable() else name[:60]
        raise InputError(f"{path}: it is '{shown}'", hint="names have no '/', no whitespace and no control characters")


def check_key(key: str, path: str) -> None:
    """Refuse the key of a label or taint that is empty, or that could not be read again."""
    if not key:
        raise InputError(f"{path}: a key is empty", hint="name it")
    if " " in key or not key.isprintable():
        shown = key[:60].encode("unicode_escape").decode()
        raise InputError(f"{path}: a key is '{shown}'", hint="keys have no whitespace and no control characters")


def check_keys(labels: Mapping[str, str], path: str) -> None:
    """Refuse labels of which one has no key."""
    if "" in labels:
        raise InputError(f"{path}: a label has no key", hint="name the label")


def version_of(metadata: Metadata) -> int:
    """Read the resourceVersion as a number; 0 when it is none."""
    text = str(metadata.resource_version)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_VERSION_DIGITS else 0
