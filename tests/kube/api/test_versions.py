"""Versions of servers: tested, newer, too old."""

from __future__ import annotations

import asyncio

import pytest

from hostler.errors import InputError
from hostler.kube.api.http import client_for
from hostler.kube.scheduler.preflight import check_version, read_version
from tests.kube.api.scripted_server import ReceivedCall, Wire, client_of, serving
from tests.kube.api.test_access import write


@pytest.mark.parametrize("version", ["v1.34.0", "v1.36.3", "v1.37.1-eks-abc", "1.35"])
def test_a_tested_version_is_silent(version):
    assert check_version(version) is None


@pytest.mark.parametrize("version", ["v1.30.0", "v1.33.9", "v1.38.0-alpha.0", "v2.0.0"])
def test_an_untested_version_is_a_warning_that_names_the_range(version):
    warning = check_version(version) or ""
    assert version in warning
    assert "1.34 to 1.37" in warning


def test_a_version_without_a_number_is_a_warning():
    assert "version has an unknown form" in (check_version("dev") or "")


@pytest.mark.parametrize("version", ["v1.29.9", "v1.9.0", "v0.0.0"])
def test_a_version_that_is_too_old_is_refused(version):
    with pytest.raises(InputError, match=r"at least 1\.30 is needed"):
        check_version(version)


async def test_the_server_is_asked_for_its_version():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.answer(200, {"major": "1", "gitVersion": "v1.37.1"} if call.path == "/version" else b"what?")

    async with client_of(script) as (client, _server):
        assert await read_version(client) == "v1.37.1"


def test_what_is_no_api_server_is_an_error():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.answer(200, b"<html>")

    async def main() -> None:
        async with client_of(script) as (client, _server):
            await read_version(client)

    with pytest.raises(InputError, match="not a Kubernetes API server"):
        asyncio.run(main())


def test_a_kubeconfig_is_all_that_a_client_needs(tmp_path):
    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.answer(200, {"gitVersion": call.headers["authorization"]})

    async def main() -> str:
        async with serving(script) as server:
            path = write(tmp_path / "config", cluster={"server": f"http://127.0.0.1:{server.port}/"})
            client = client_for(path)
            try:
                return await read_version(client)
            finally:
                await client.close()

    assert asyncio.run(main()) == "Bearer very-secret-word"
