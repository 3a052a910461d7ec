"""Places in objects: the names and paths in errors and notes, and the notes themselves.

Inner code knows only the path of a field. :func:`about` adds the object, so that a message reads ``pod default/a:
spec.containers[0].resources.requests.cpu: amount 'x' is not a quantity``. Used by every module here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from hostler.errors import InputError, QuantityError
from hostler.manifests.objects.metadata import Metadata, Quantity
from hostler.model import parse_resource

__all__ = [
    "DEFAULT_NAMESPACE", "ManifestNote", "about", "check_count", "check_key", "check_keys", "check_name", "child",
    "node_place", "object_place", "parse_quantities", "pod_place", "version_of",
]  # fmt: skip

DEFAULT_NAMESPACE = "default"

_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_MAX_INT32 = 2**31 - 1  # Kubernetes counts in 32 bits
_MAX_NAME = 253  # characters, as in Kubernetes
_MAX_VERSION_DIGITS = 18  # fits 64 bits


class ManifestNote(msgspec.Struct, frozen=True):
    """A field that is read but ignored: the object, the field, and the reason."""

    object: str
    field: str
    text: str

    def line(self) -> str:
        """Write the note in one line."""
        return f"{self.object}: {self.field} {self.text}" if self.field else f"{self.object} {self.text}"


@contextmanager
def about(place: str, joint: str = ": ") -> Iterator[None]:
    """Prefix an input error raised inside with the object's name or a path."""
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
    """Return the name of a node for errors and notes."""
    return f"node {name}" if name else "a node without a name"


def pod_place(namespace: str, name: str) -> str:
    """Return the name of a pod for errors and notes."""
    return f"pod {namespace or DEFAULT_NAMESPACE}/{name}" if name else "a pod without a name"


def object_place(kind: str, namespace: str, name: str) -> str:
    """Return the name of any other object for errors and notes; cluster-wide objects have no namespace."""
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
    """Reject a count that Kubernetes would reject."""
    if not least <= number <= _MAX_INT32:
        raise InputError(f"{path}: {number} is not between {least} and 2^31 - 1")
    return number


def check_name(name: str, path: str) -> None:
    """Reject a name that Kubernetes would reject and that could not be read again; an empty name is rejected too."""
    if len(name) > _MAX_NAME:
        raise InputError(f"{path}: it is longer than {_MAX_NAME} characters", hint="choose a shorter name")
    if "/" in name or " " in name or not name.isprintable():
        shown = name[:60].encode("unicode_escape").decode() if not name.isprintable() else name[:60]
        raise InputError(f"{path}: it is '{shown}'", hint="names have no '/', no whitespace and no control characters")


def check_key(key: str, path: str) -> None:
    """Reject a label or taint key that is empty or could not be read again."""
    if not key:
        raise InputError(f"{path}: a key is empty", hint="name it")
    if " " in key or not key.isprintable():
        shown = key[:60].encode("unicode_escape").decode()
        raise InputError(f"{path}: a key is '{shown}'", hint="keys have no whitespace and no control characters")


def check_keys(labels: Mapping[str, str], path: str) -> None:
    """Reject labels with an empty key."""
    if "" in labels:
        raise InputError(f"{path}: a label has no key", hint="name the label")


def version_of(metadata: Metadata) -> int:
    """Return the resourceVersion as a number; 0 if it is not a number."""
    text = str(metadata.resource_version)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_VERSION_DIGITS else 0
