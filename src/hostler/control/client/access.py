"""Calls for join tokens and API keys. A secret is returned once, when it is created."""

from __future__ import annotations

from collections.abc import Iterator

from hostler.control.client.pages import list_items
from hostler.control.client.wire import Wire, path_of
from hostler.control.schemas import (
    Key,
    KeyCreate,
    KeyMade,
    KeyRotate,
    Page,
    Token,
    TokenCreate,
    TokenMade,
)

__all__ = ["Keys", "Tokens"]


class Tokens:
    """Tokens with which hosts join."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, wish: TokenCreate) -> TokenMade:
        """Create a token."""
        return self._wire.change("POST", "/v1/tokens", TokenMade, body=wish, is_once=True)

    def list(self) -> Iterator[Token]:
        """Return the tokens, without their secrets."""
        return list_items(self._wire, "/v1/tokens", Page[Token])

    def revoke(self, token: str) -> None:
        """Revoke a token."""
        self._wire.remove(path_of("tokens", token))


class Keys:
    """API keys."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def create(self, wish: KeyCreate) -> KeyMade:
        """Create a key."""
        return self._wire.change("POST", "/v1/keys", KeyMade, body=wish, is_once=True)

    def list(self, *, project: str = "") -> Iterator[Key]:
        """Return the keys, without their secrets."""
        return list_items(self._wire, "/v1/keys", Page[Key], {"project": project})

    def rotate(self, key: str, *, overlap_s: int = 0) -> KeyMade:
        """Create a key that replaces another one, which stays valid for the overlap."""
        body = KeyRotate(overlap_s=overlap_s)
        return self._wire.change("POST", path_of("keys", key, "rotate"), KeyMade, body=body, is_once=True)

    def confirm(self, key: str) -> Key:
        """Accept a key again after a restore."""
        return self._wire.change("POST", path_of("keys", key, "confirm"), Key, is_once=True)

    def revoke(self, key: str) -> None:
        """Revoke a key."""
        self._wire.remove(path_of("keys", key))

    def end_sessions(self) -> None:
        """End every session of the dashboard."""
        self._wire.remove(path_of("sessions"))
