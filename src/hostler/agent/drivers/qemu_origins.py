"""From where images may be fetched: an agent stands within a network that users of the service may not look into.

So only addresses below what the operator of the host allowed are asked, and so is each one that an answer points to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

import msgspec

from hostler.agent.drivers.driver import PermanentError
from hostler.errors import InputError

__all__ = ["Origin", "check_allowed", "is_allowed", "read_origin"]

_PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[!-\[\]-~]{1,2000}")  # printable, without spaces, and no backslash: some take it for a slash


class Origin(msgspec.Struct, frozen=True):
    """A server, and the folder of it that may be fetched from; empty: all of it."""

    scheme: str
    host: str
    port: int
    folder: tuple[str, ...] = ()


def read_origin(text: str) -> Origin:
    """Return the origin that an operator wrote; InputError."""
    place = _place_of(text)
    parts = urlsplit(text) if place is not None else None
    if place is None or parts is None or parts.query or parts.fragment:
        raise InputError(
            f"{text[:200]!r} is no origin of images", hint="such as https://images.example.org or https://host/folder"
        )
    return msgspec.structs.replace(place, folder=tuple(part for part in place.folder if part))


def is_allowed(url: str, origins: Sequence[Origin]) -> bool:
    """Say whether an address lies below one of the origins; what could be read in two ways does not."""
    place = _place_of(url)
    if place is None:
        return False
    return any(
        (place.scheme, place.host, place.port) == (origin.scheme, origin.host, origin.port)
        and place.folder[: len(origin.folder)] == origin.folder
        for origin in origins
    )


def check_allowed(url: str, origins: Sequence[Origin]) -> None:
    """Refuse an address that this host may not fetch from."""
    if _place_of(url) is None:
        raise PermanentError(f"{url[:200]!r} is no address of an image", hint="write https://host/path")
    if not is_allowed(url, origins):
        hint = "its operator allows them: hostler agent --image-origin https://host"
        raise PermanentError(f"this host fetches no images from where {url[:200]} is", hint=hint)


def _place_of(url: str) -> Origin | None:
    """Return the server of an address, and its path in parts; None where it is none that we would ask."""
    if not _PLAIN.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        return None
    folder = unquote(parts.path).split("/")[1:]
    if "." in folder or ".." in folder or "\\" in unquote(parts.path):
        return None
    return Origin(parts.scheme, parts.hostname, _PORTS[parts.scheme] if port is None else port, tuple(folder))
