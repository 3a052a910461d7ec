"""The control plane in memory behind real HTTP, and commands as processes of their own beside it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from hostler.agent.simulated_fleet import TOKENS_PATH
from hostler.runtime.transport import Request
from tests.agent.fake_control_plane import FakeControlPlane
from tests.agent.test_http import server
from tests.wait import GIVE_UP_S

MAIN = "import sys; from hostler.cli.main import main; sys.exit(main())"
KEY = "admin-key"


class ServedControlPlane:
    """A served plane; ``wishes`` are the tokens that were asked for."""

    def __init__(self, plane: FakeControlPlane) -> None:
        self.plane = plane
        self.wishes: list[dict] = []
        self.refusals = 0  # of wishes for tokens, still to come
        self.address = ""

    async def answer(self, request):
        body = await request.read()
        credential = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if request.path == TOKENS_PATH:
            return self._token(body, credential)
        wanted = Request(method=request.method, path=request.path_qs, body=body, credential=credential)
        response = await self.plane.send(wanted)
        return web.Response(status=response.status, body=response.body)

    def _token(self, body, credential):
        if credential != KEY:
            return web.Response(status=403, body=b'{"code": "forbidden"}')
        if self.refusals:
            self.refusals -= 1
            return web.Response(status=503)
        wish = msgspec.json.decode(body)
        self.wishes.append(wish)
        token = f"token-of-{wish['host_name']}"
        self.plane.tokens.add(token)
        made = {"token": {"id": "1", "host_name": wish["host_name"]}, "secret": token}
        return web.Response(status=201, body=msgspec.json.encode(made))


class Running:
    """A command that runs."""

    def __init__(self, process) -> None:
        self.process = process
        self._said = ""

    async def until_it_says(self, words: str) -> None:
        """Read its log until these words have come."""
        async with asyncio.timeout(GIVE_UP_S):
            while words not in self._said:
                line = await self.process.stderr.readline()
                assert line, f"it never said {words!r}: {self._said}"
                self._said += line.decode()

    async def end(self, number=None) -> tuple[int, str, str]:
        """Send a signal, if any, and return exit code and both streams."""
        if number is not None:
            self.process.send_signal(number)
        async with asyncio.timeout(GIVE_UP_S):
            out, err = await self.process.communicate()
        return self.process.returncode, out.decode(), self._said + err.decode()


@asynccontextmanager
async def control_plane():
    there = ServedControlPlane(FakeControlPlane())
    async with server(there.answer) as address:
        there.address = address
        yield there


@asynccontextmanager
async def command(*words: str | Path, home: Path, stdin: str = "", program: str = MAIN):
    """Run ``hostler`` with these words; ended at the end whatever happens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", program, *map(str, words)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"XDG_STATE_HOME": str(home)},
    )
    if stdin:
        process.stdin.write(stdin.encode())
    process.stdin.close()
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def secret(path: Path, text: str) -> Path:
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_text(text)
    return path
