"""``python -m bench.kube_client [--quick]``: what a call of the Kubernetes client costs.

On a small machine a client takes its processor time from the API server, so that is what counts here: processor time
of this process, with asyncio's loop and with uvloop, with and without TLS. The server is a stub in a second process.
Run by hand; prints a table.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import ipaddress
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time

import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bench.kube_stub import PODS
from bench.results import Report, Row, describe_machine, table
from hostler.kube.api.access import Access
from hostler.kube.api.client import KubeClient
from hostler.kube.api.credentials import ClientIdentity, FixedCredential
from hostler.kube.api.http import AiohttpTransport
from hostler.kube.api.resources import PODS as POD_RESOURCE

__all__ = ["main"]

_IN_FLIGHT = 64
_RUNS = 3
_BEST_MS = 0.12  # of processor time per bind, over plain HTTP on uvloop; 0.5 is what must never be reached

Work = Callable[[KubeClient, int], Awaitable[None]]


async def _bind(client: KubeClient, count: int) -> None:
    numbers = iter(range(count))

    async def bind_some() -> None:
        for number in numbers:
            uid = f"00000000-0000-0000-0000-{number:012}"
            await client.bind("default", f"pod-{number}", uid, f"node-{number % 5000}", timeout_s=4.0)

    await asyncio.gather(*(bind_some() for _ in range(_IN_FLIGHT)))


async def _watch(client: KubeClient, count: int) -> None:
    seen = 0
    async for batch in client.watch(POD_RESOURCE, "1000"):
        seen += len(batch)
    assert seen == count


async def _list(client: KubeClient, count: int) -> None:
    listing = await client.list(POD_RESOURCE)
    assert len(listing.items) == count


def _rows(way: str, loop_factory: Callable[[], asyncio.AbstractEventLoop], access: Access, binds: int) -> Iterator[Row]:
    for name, what, work, count, target in (
        ("bind", f"processor ms per bind, {_IN_FLIGHT} in flight", _bind, binds, _BEST_MS if way == "uvloop" else 0.5),
        ("watch", "processor ms per line of a watch", _watch, PODS, None),
        ("list", f"processor ms per pod of a list of {PODS:,}", _list, PODS, None),
    ):
        runs = tuple(_cost_ms(loop_factory, access, work, count) for _ in range(_RUNS))
        row = Row(
            name=f"{name}, {way}", what=what, unit="ms", target=target, sense="at most", measured=min(runs), runs=runs
        )
        yield row.judged()


def _cost_ms(loop_factory: Callable[[], asyncio.AbstractEventLoop], access: Access, work: Work, count: int) -> float:
    """Return the processor time of this process for one of ``count`` things."""

    async def run() -> float:
        client = KubeClient(AiohttpTransport(access))
        try:
            await _bind(client, 2 * _IN_FLIGHT)  # the connections are there, as they are in a scheduler
            start = process_time()
            await work(client, count)
            return round(1000 * (process_time() - start) / count, 5)
        finally:
            await client.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(run())


@contextmanager
def _stub(certificate: str = "") -> Iterator[int]:
    command = [sys.executable, "-m", "bench.kube_stub", *([certificate] if certificate else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _certificate() -> tuple[bytes, bytes]:
    """Make a certificate that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stub")])
    now = datetime.datetime.now(datetime.UTC)
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
    signed = builder.not_valid_after(now + datetime.timedelta(hours=1)).add_extension(host, False)
    pem = serialization.Encoding.PEM
    return (
        signed.sign(key, hashes.SHA256()).public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.kube_client", description="Measure the Kubernetes client.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the binds; targets are not judged")
    is_quick = bool(parser.parse_args().quick)
    load_before, binds = os.getloadavg(), 1_000 if is_quick else 10_000
    credential = FixedCredential(ClientIdentity(token="x" * 900))  # as long as those of service accounts
    loops = (("asyncio", asyncio.new_event_loop), ("uvloop", uvloop.new_event_loop))
    rows: list[Row] = []
    with _stub() as port:
        for way, factory in loops:
            rows += _rows(way, factory, Access(server=f"http://127.0.0.1:{port}", credential=credential), binds)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = _certificate()
        file = Path(folder) / "stub.pem"
        file.write_bytes(certificate + key)
        with _stub(str(file)) as port:
            server = f"https://127.0.0.1:{port}"
            access = Access(server=server, credential=credential, authority=certificate)
            for way, factory in loops:
                rows += _rows(f"{way}, TLS", factory, access, binds)
    machine = describe_machine(load_before)
    report = Report(bench="kube_client", quick=is_quick, runs_per_figure=_RUNS, machine=machine, rows=tuple(rows))
    print(table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
