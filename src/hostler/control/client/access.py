"""Join tokens and API keys of a control plane, as calls. Secrets are answered once, when they are made."""

from __future__ import annotations

from collections.abc import Iterator

from hostler.control.api.shapes import (
    Key,
    KeyCreate,
    KeyMade,
    KeyRotate,
    Page,
    Token,
    TokenCreate,
    TokenMade,
)
from hostler.control.client.pages import items
from hostler.control.client.wire import Wire, path_of

__all__ = ["Keys", "Tokens"]


class Tokens:
    """Tokens by which hosts join."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, wish: TokenCreate) -> TokenMade:
        """Make a token."""
        return self._wire.change("POST", "/v1/tokens", TokenMade, body=wish, is_once=True)

    def list(self) -> Iterator[Token]:
        """Return the tokens, without their secrets."""
        return items(self._wire, "/v1/tokens", Page[Token])

    def revoke(self, token: str) -> None:
        """Make a token useless."""
        self._wire.remove(path_of("tokens", token))


class Keys:
    """API keys."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, wish: KeyCreate) -> KeyMade:
        """Make a key."""
        return self._wire.change("POST", "/v1/keys", KeyMade, body=wish, is_once=True)

    def list(self, *, project: str = "") -> Iterator[Key]:
        """Return the keys, without their secrets."""
        return items(self._wire, "/v1/keys", Page[Key], {"project": project})

    def rotate(self, key: str, *, overlap_s: int = 0) -> KeyMade:
        """Make a key that takes the place of another, which stays good for a while."""
        body = KeyRotate(overlap_s=overlap_s)
        return self._wire.change("POST", path_of("keys", key, "rotate"), KeyMade, body=body, is_once=True)

    def confirm(self, key: str) -> Key:
        """Accept a key again that a restore brought back."""
        return self._wire.change("POST", path_of("keys", key, "confirm"), Key, is_once=True)

    def revoke(self, key: str) -> None:
        """Make a key useless."""
        self._wire.remove(path_of("keys", key))

    def end_sessions(self) -> None:
        """End every session of the dashboard."""
        self._wire.remove(path_of("sessions"))
