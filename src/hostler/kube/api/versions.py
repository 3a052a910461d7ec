"""Which versions of Kubernetes we were tested with, and what is said about others.

A version beyond the range mostly works, so it is a warning; one so old that objects lack fields on which decisions rest
(scheduling gates of 1.30, match label keys) is refused. Read at start.
"""

from __future__ import annotations

import re

import msgspec

from hostler.errors import InputError
from hostler.kube.api.client import Client

__all__ = ["OLDEST", "TESTED", "check_version", "read_version"]

TESTED = ("1.34", "1.37")
OLDEST = "1.30"

_VERSION = re.compile(r"v?(\d+)\.(\d+)")


class VersionInfo(msgspec.Struct, rename="camel"):
    """What /version says, as far as we read it."""

    git_version: str = ""


async def read_version(client: Client) -> str:
    """Ask the server for its version, such as ``v1.37.1``."""
    body = await client.read("/version")
    try:
        return msgspec.json.decode(body, type=VersionInfo).git_version
    except msgspec.MsgspecError:
        raise InputError(
            "what answers is no Kubernetes API server", hint="check the server's address in the kubeconfig"
        ) from None


def check_version(version: str) -> str | None:
    """Return a warning where the server's version is outside the tested range; raise InputError where it is too old."""
    number = _number(version)
    if number is None:
        return f"the server does not say its version in a known form; tested are {TESTED[0]} to {TESTED[1]}"
    if number < (_number(OLDEST) or (0, 0)):
        raise InputError(
            f"the API server is {version}; at least {OLDEST} is needed", hint=f"tested are {TESTED[0]} to {TESTED[1]}"
        )
    if (_number(TESTED[0]) or number) <= number <= (_number(TESTED[1]) or number):
        return None
    return f"the API server is {version}; tested are {TESTED[0]} to {TESTED[1]}"


def _number(version: str) -> tuple[int, int] | None:
    match = _VERSION.match(version)
    return (int(match[1]), int(match[2])) if match else None
