"""What people write about projects and reservations hides nothing from who reads it, and moves no cursor of his."""

from __future__ import annotations

import asyncio

import pytest

from tests.control.api.house import open_house

HIDDEN = ["a\0b", "\x1b[2J", "turned\u202e"]


@pytest.mark.parametrize("text", HIDDEN, ids=ascii)
def test_control_characters_are_refused_and_change_nothing(text: str) -> None:
    async def scenario() -> None:
        async with open_house() as house:
            plain = {"name": "red", "description": "two\nlines"}
            assert (await house.ask("POST", "/v1/projects", json=plain)).status_code == 201
            room = {"project": "red", "name": "room", "amounts": {"cpu": "1"}}
            assert (await house.ask("POST", "/v1/reservations", json=room)).status_code == 201
            for method, path, body in (
                ("POST", "/v1/projects", {"name": "blue", "description": text}),
                ("PATCH", "/v1/projects/red", {"description": text}),
                ("POST", "/v1/reservations", room | {"name": "other", "amounts": {text: "1"}}),
                ("POST", "/v1/reservations", room | {"name": "other", "hosts": [text]}),
                ("PATCH", "/v1/reservations/red/room", {"amounts": {text: "1"}}),
            ):
                refused = await house.ask(method, path, json=body)
                assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input"), (method, path)
                assert refused.json()["detail"].isprintable()
            assert (await house.ask("GET", "/v1/projects/red")).json()["description"] == "two\nlines"
            assert len((await house.ask("GET", "/v1/reservations")).json()["items"]) == 1

    asyncio.run(scenario())
