"""Which command a hint names: by the cause that a refusal tells, never by its sentence."""

from __future__ import annotations

import pytest

from hostler.cli.control.connection import hint_for
from hostler.errors import Cause, ConflictError, HostlerError, InputError, UnknownNameError


def refused(kind: type[HostlerError], cause: Cause | None, code: str = "") -> HostlerError:
    error = kind("VM db is protected from deletion", cause=cause)
    if code:
        vars(error)["code"] = code  # as the client does with what a service tells
    return error


@pytest.mark.parametrize(
    ("cause", "hint"),
    [
        (
            Cause("other_project", "project", "shop"),
            "name that project with -p shop; else ask an administrator for a key that may",
        ),
        (Cause("protected", "vm", "db"), "remove the protection first: 'hostler vm resize db --no-protected'"),
        (
            Cause("moving", "vm", "db"),
            "wait until it has arrived, or cancel the move: 'hostler vm migrate db --cancel'",
        ),
        (
            Cause("pinned", "vm", "db"),
            "allow other hosts first: 'hostler vm resize db --host NAME', or --host '' for any",
        ),
        (Cause("missing", "host", "node-9"), "'hostler host list' shows the hosts that there are"),
        (Cause("missing", "vm", "db"), ""),
        (Cause("of a newer service", "vm", "db"), ""),
        (None, ""),
    ],
)
@pytest.mark.parametrize("kind", [ConflictError, InputError])
def test_hint_follows_cause(kind: type[HostlerError], cause: Cause | None, hint: str) -> None:
    assert hint_for(refused(kind, cause)) == hint


@pytest.mark.parametrize("kind", ["vm", "host", "token", "project", "quota", "reservation", "gang", "key"])
def test_hint_for_missing_thing_names_its_list(kind: str) -> None:
    error = refused(UnknownNameError, Cause("missing", kind, "x"), "not_found")
    assert hint_for(error) == f"'hostler {kind} list' shows what there is"


def test_hint_for_missing_operation_stays_that_of_service() -> None:
    assert hint_for(refused(UnknownNameError, Cause("missing", "operation", "x"), "not_found")) == ""


def test_hint_survives_braces_in_names() -> None:
    hint = hint_for(refused(ConflictError, Cause("protected", "vm", "{0}")))
    assert hint == "remove the protection first: 'hostler vm resize {0} --no-protected'"
