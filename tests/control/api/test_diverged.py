"""A replica that cannot follow the log, as users see it: they read and write, and nothing is decided by it."""

from __future__ import annotations

import pytest

from tests.control.api.service_in_process import open_service

READS = ["/v1/vms", "/v1/hosts", "/v1/projects", "/v1/quotas", "/v1/gangs", "/v1/events", "/metrics", "/livez"]


@pytest.mark.parametrize("path", READS)
async def test_diverged_replica_answers_reads(path):
    async with open_service() as service:
        service.context.books.trouble = "entry 9 of the log is not followed"
        answer = await service.ask("GET", path)
        assert answer.status_code == 200, answer.text
        if path == "/metrics":
            assert "hostler_control_books_diverged 1.0" in answer.text


async def test_diverged_replica_writes_what_may_wait():
    async with open_service() as service:
        service.context.books.trouble = "entry 9 of the log is not followed"
        spec = {"cpu": 1, "memory": "1Gi"}
        kept = await service.ask("POST", "/v1/vms", json={"name": "waits", "spec": spec})
        assert kept.status_code in (201, 202), kept.text
        at_once = {"name": "at-once", "spec": spec, "on_unplaceable": "fail"}
        refused = await service.ask("POST", "/v1/vms", json=at_once)
        assert refused.status_code == 503, refused.text
        assert "cannot follow the log" in refused.json()["detail"]
        assert (await service.ask("GET", "/readyz")).status_code == 503
