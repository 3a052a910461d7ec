"""What people write about projects and reservations hides nothing from who reads it, and moves no cursor of his."""

from __future__ import annotations

import pytest

from tests.control.api.service_in_process import open_service

HIDDEN = ["a\0b", "\x1b[2J", "turned\u202e"]


@pytest.mark.parametrize("text", HIDDEN, ids=ascii)
async def test_control_characters_are_refused_and_change_nothing(text: str) -> None:
    async with open_service() as service:
        plain = {"name": "red", "description": "two\nlines"}
        assert (await service.ask("POST", "/v1/projects", json=plain)).status_code == 201
        room = {"project": "red", "name": "room", "amounts": {"cpu": "1"}}
        assert (await service.ask("POST", "/v1/reservations", json=room)).status_code == 201
        for method, path, body in (
            ("POST", "/v1/projects", {"name": "blue", "description": text}),
            ("PATCH", "/v1/projects/red", {"description": text}),
            ("POST", "/v1/reservations", room | {"name": "other", "amounts": {text: "1"}}),
            ("POST", "/v1/reservations", room | {"name": "other", "hosts": [text]}),
            ("PATCH", "/v1/reservations/red/room", {"amounts": {text: "1"}}),
        ):
            refused = await service.ask(method, path, json=body)
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input"), (method, path)
            assert refused.json()["detail"].isprintable()
        assert (await service.ask("GET", "/v1/projects/red")).json()["description"] == "two\nlines"
        assert len((await service.ask("GET", "/v1/reservations")).json()["items"]) == 1
