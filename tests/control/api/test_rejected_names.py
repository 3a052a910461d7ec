"""A word that is no name is refused in one sentence by REST, in files and by commands; the pattern is described."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler.control.api.app import ALL_ROUTES
from hostler.control.api.description import describe
from hostler.control.vms.names import NAME_PATTERN, check_name
from hostler.errors import InputError
from tests.control.api.service_in_process import open_service

HINT = "at most 63 letters, digits, '-', '_' and '.'; the first and the last are neither '-' nor '.'"
SPEC = {"cpu": "1", "memory": "1Gi"}
WRONG = ["two words", "", "-web", "web-", "web.", "a" * 64, "\u00fcber", "web\n"]


def told(path: str, body: Any) -> tuple[int, str, str]:
    """Send a body, and return the status with what is said and what would help."""

    async def ask() -> tuple[int, str, str]:
        async with open_service(is_led=False) as service:
            kind = {"Content-Type": "application/json"}
            more = {"content": body, "headers": kind} if isinstance(body, bytes) else {"json": body}
            answer = await service.ask("POST", path, **more)
            problem = answer.json()
            return answer.status_code, problem["detail"], problem["hint"]

    return asyncio.run(ask())


@pytest.mark.parametrize("word", WRONG)
def test_a_word_that_is_no_name_is_named_and_the_hint_says_what_one_is(word: str) -> None:
    assert told("/v1/vms", {"name": word, "spec": SPEC}) == (400, f"name: {word[:60]!r} is not a name", HINT)


@pytest.mark.parametrize("word", WRONG)
def test_files_and_commands_are_told_the_same(word: str) -> None:
    with pytest.raises(InputError) as caught:
        check_name("name", word)
    assert (caught.value.message, caught.value.hint) == (f"name: {word[:60]!r} is not a name", HINT)


@pytest.mark.parametrize("word", ["web", "_", "7", "a.b-c_d", "a" * 63])
def test_names_are_names(word: str) -> None:
    check_name("name", word)


def test_a_name_inside_a_list_is_reported_with_its_place() -> None:
    vms = [{"name": "web", "spec": SPEC}, {"name": "two words", "spec": SPEC}]
    assert told("/v1/plan", {"vms": vms}) == (400, "vms[1].name: 'two words' is not a name", HINT)


def test_fields_of_a_spec_that_hold_names_are_told_so_too() -> None:
    wrong = {"name": "web", "spec": {**SPEC, "gang": "two words"}}
    assert told("/v1/vms", wrong) == (400, "gang: 'two words' is not a name", HINT)


def test_truncated_body_with_bad_name_is_rejected() -> None:
    status, detail, _ = told("/v1/vms", b'{"name": "two words", "spec"')
    assert (status, detail.startswith("Expected `str` matching regex")) == (400, True)


def test_the_description_keeps_the_pattern() -> None:
    name = describe(ALL_ROUTES)["components"]["schemas"]["VmCreate"]["properties"]["name"]
    assert name["pattern"] == NAME_PATTERN
