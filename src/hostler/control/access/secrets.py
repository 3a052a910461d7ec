"""Secrets of callers: API keys (``hk_``), join tokens (``hj_``) and agents' credentials (``ha_``).

``hk_<id>_<random><checksum>``, in lower-case base32: 80 bits of id, 200 random bits, 40 bits of checksum. The id is
public: lists and the audit log show it. The checksum detects a mistyped secret without a database lookup; it proves
nothing.

The store keeps the SHA-256 of the whole text. Slow hashes protect passwords that people choose. 200 random bits cannot
be guessed, so a slow hash would only cost time at each request. A secret is found by its hash and never compared, so
the response time reveals nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from hostler.control.access.errors import UnauthenticatedError

__all__ = ["Kind", "Random", "Secret", "bearer_of", "hash_secret", "make_secret", "parse_secret", "redact"]

Kind = Literal["key", "token", "credential"]
Random: TypeAlias = Callable[[int], bytes]
"""Gives that many random bytes; ``secrets.token_bytes`` of the standard library outside of tests."""

_PREFIXES: dict[Kind, str] = {"key": "hk", "token": "hj", "credential": "ha"}
_WORDS: dict[Kind, str] = {"key": "an API key", "token": "a join token", "credential": "an agent's credential"}
_ID_BYTES, _RANDOM_BYTES, _SUM_BYTES = 10, 25, 5  # multiples of five: base32 without padding and without spare bits
_SHAPE = re.compile(r"(?P<prefix>h[kja])_(?P<id>[a-z2-7]{16})_(?P<random>[a-z2-7]{40})(?P<sum>[a-z2-7]{8})")

# Cut off, mistyped or in capitals, it may still be most of a secret.
_OURS = re.compile(r"(h[kja]_[a-z0-9]{16})_[\w-]+", re.IGNORECASE)
_NEARLY_OURS = re.compile(r"(?<![a-z0-9])(h[kja]_)[\w-]{20,}", re.IGNORECASE)
_SESSION = re.compile(r"\bhs_[\w.-]+")
_BEARER = re.compile(r"\b(bearer|basic)(\s+)(?!h[kja]_[a-z0-9]{16}_\[)[^\s\"',;]+", re.IGNORECASE)
_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s/@]+@")
_GONE = "[redacted]"


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret in full. Its text is shown once, to its owner. Its ``repr`` shows only the id."""

    kind: Kind
    id: str
    text: str

    @property
    def hash(self) -> str:
        """Return the hash that is stored."""
        return hash_secret(self.text)

    def __repr__(self) -> str:
        return f"Secret({_PREFIXES[self.kind]}_{self.id}_{_GONE})"


def make_secret(kind: Kind, random: Random) -> Secret:
    """Return a new secret."""
    identity, body = _encode(random(_ID_BYTES)), _encode(random(_RANDOM_BYTES))
    start = f"{_PREFIXES[kind]}_{identity}_{body}"
    return Secret(kind=kind, id=identity, text=start + _checksum(start))


def parse_secret(text: str, kind: Kind) -> Secret:
    """Parse a secret of one kind; UnauthenticatedError for a malformed one, without a lookup."""
    if not text and kind == "token":  # it comes in the body
        raise UnauthenticatedError("missing", message=f"{_WORDS[kind]} is needed", hint=f"send {_WORDS[kind]}")
    if not text:
        message = f"{_WORDS[kind]} is needed: the header Authorization is missing or holds no key"
        hint = f"send the header Authorization with the word Bearer, a space and {_WORDS[kind]}"
        raise UnauthenticatedError("missing", message=message, hint=hint)
    found = _SHAPE.fullmatch(text)
    if found is None or _checksum(text[: -len(found["sum"])]) != found["sum"]:
        hint = "copy all of it, without spaces or line ends around it"
        raise UnauthenticatedError("mistyped", message=f"this is not the whole of {_WORDS[kind]}", hint=hint)
    if found["prefix"] != _PREFIXES[kind]:
        other = next(word for name, word in _WORDS.items() if _PREFIXES[name] == found["prefix"])
        message = f"{_WORDS[kind]} is needed here, and this is {other}"
        raise UnauthenticatedError("mistyped", subject=found["id"], message=message, hint=f"send {_WORDS[kind]}")
    return Secret(kind=kind, id=found["id"], text=text)


def bearer_of(header: str) -> str:
    """Return the secret in an Authorization header, empty if there is none."""
    scheme, _, rest = header.strip().partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else ""


def hash_secret(text: str) -> str:
    """Return the hash that is stored for a secret."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def redact(text: str) -> str:
    """Return a text with all secrets removed, for log lines and error messages."""
    text = _OURS.sub(rf"\1_{_GONE}", text)
    text = _NEARLY_OURS.sub(rf"\1{_GONE}", text)
    text = _SESSION.sub(f"hs_{_GONE}", text)
    text = _BEARER.sub(rf"\1\2{_GONE}", text)
    return _PASSWORD.sub(rf"\1{_GONE}@", text)


def _encode(raw: bytes) -> str:
    return base64.b32encode(raw).decode().lower()


def _checksum(start: str) -> str:
    return _encode(hashlib.sha256(b"hostler checksum " + start.encode()).digest()[:_SUM_BYTES])
