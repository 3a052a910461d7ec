"""Images that are fetched once, by their hashes. What does not have its hash never gets its name.

All of them together have a limit: those that were not used for longest make room, unless a VM's disk lies over them.
The owner of an order only learns that an image is not the ordered one; the details are in the log.

Only addresses below the origins that the operator of the host allowed are asked, and so is each one that an answer
points to: an agent stands within a network that users of the service may not look into.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urljoin, urlsplit

import aiohttp
import msgspec

from hostler.agent.driver import BlockedError, DriverError, PermanentError
from hostler.agent.messages import Image
from hostler.errors import InputError
from hostler.telemetry.log import QUIET, Log

__all__ = ["ImageCache", "Origin", "check_allowed", "is_allowed", "read_origin"]

_PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[!-\[\]-~]{1,2000}")  # printable, without spaces, and no backslash: some take it for a slash


class Origin(msgspec.Struct, frozen=True):
    """A server, and the folder of it from which fetching is allowed; empty: all of it."""

    scheme: str
    host: str
    port: int
    folder: tuple[str, ...] = ()


def read_origin(text: str) -> Origin:
    """Parse an origin that an operator wrote; InputError."""
    place = _place_of(text)
    parts = urlsplit(text) if place is not None else None
    if place is None or parts is None or parts.query or parts.fragment:
        raise InputError(
            f"{text[:200]!r} is no origin of images", hint="such as https://images.example.org or https://host/folder"
        )
    return msgspec.structs.replace(place, folder=tuple(part for part in place.folder if part))


def is_allowed(url: str, origins: Sequence[Origin]) -> bool:
    """Say whether an address is below one of the origins; an ambiguous one is not."""
    place = _place_of(url)
    if place is None:
        return False
    return any(
        (place.scheme, place.host, place.port) == (origin.scheme, origin.host, origin.port)
        and place.folder[: len(origin.folder)] == origin.folder
        for origin in origins
    )


def check_allowed(url: str, origins: Sequence[Origin]) -> None:
    """Reject an address that this host may not fetch from."""
    if _place_of(url) is None:
        raise PermanentError(f"{url[:200]!r} is no address of an image", hint="write https://host/path")
    if not is_allowed(url, origins):
        hint = "its operator allows them: hostler agent --image-origin https://host"
        raise PermanentError(f"this host may not fetch images from {url[:200]}", hint=hint)


def _place_of(url: str) -> Origin | None:
    """Return the server of an address, and its path in parts; None where it is none that we would ask."""
    if not _PLAIN.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        return None
    folder = unquote(parts.path).split("/")[1:]
    if "." in folder or ".." in folder or "\\" in unquote(parts.path):
        return None
    return Origin(parts.scheme, parts.hostname, _PORTS[parts.scheme] if port is None else port, tuple(folder))


_SHA256 = re.compile(r"[0-9a-f]{64}")
_PIECE = 2**20
_STEP = 2**26  # for how much room is made at a time where a server does not say how long an image is
_CONNECT_S = 10.0
_SILENT_S = 60.0
_MOST_HOPS = 5
_FOUND = 200
_POINTERS = (301, 302, 303, 307, 308)
_SEE_LOG = "the log of the host's agent says more"


class ImageCache:
    """The cache of one host. ``lain_over`` returns the hashes of images under disks of VMs."""

    def __init__(
        self,
        folder: Path,
        *,
        origins: Sequence[Origin],
        largest: int,
        limit: int,
        lain_over: Callable[[], Collection[str]] = frozenset,
        log: Log = QUIET,
    ) -> None:
        self._folder = folder
        self._origins = tuple(origins)
        self._largest = largest
        self._limit = limit
        self._lain_over = lain_over
        self._log = log
        self._locks: dict[str, asyncio.Lock] = {}
        self._held: Counter[str] = Counter()
        self._arriving: dict[Path, int] = {}  # files that are being fetched, and the room that was made for each

    @contextmanager
    def holding(self, images: Iterable[Image]) -> Iterator[None]:
        """Protect images that a disk is being created over, before any VM names them."""
        held = [image.sha256 for image in images]
        self._held.update(held)
        try:
            yield
        finally:
            self._held -= Counter(held)

    async def fetch(self, image: Image) -> Path:
        """Return the cached file; fetch it if it is missing."""
        if not _SHA256.fullmatch(image.sha256):
            raise PermanentError(
                f"{image.url[:200]} comes without its sha256", hint="64 hexadecimal digits, lower case"
            )
        path = self._folder / image.sha256
        async with self._locks.setdefault(image.sha256, asyncio.Lock()):
            if path.exists():
                os.utime(path)  # so that it is known which was not used for longest
            else:
                self.check(image)
                await self._download(image, path)
        return path

    def check(self, image: Image) -> None:
        """Reject an image that this host may not fetch; an image in use stays usable, whatever is allowed later."""
        check_allowed(image.url, self._origins)

    async def _download(self, image: Image, path: Path) -> None:
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            await self._copy(image, part)
            part.chmod(0o644)
            part.rename(path)
        except (aiohttp.ClientError, TimeoutError) as error:
            self._log.warn(f"{image.url[:200]} cannot be fetched: {error}")
            hint = f"it is tried again; {_SEE_LOG}"
            raise DriverError(f"{image.url[:200]} cannot be fetched", hint=hint) from error
        except OSError as error:
            raise BlockedError(f"no room for an image: {error}", hint=f"look at {self._folder}") from error
        finally:
            self._arriving.pop(part, None)
            part.unlink(missing_ok=True)

    async def _copy(self, image: Image, part: Path) -> None:
        digest, size = hashlib.sha256(), 0
        async with self._answer(image) as answer:
            announced = answer.content_length or 0
            self._check_length(image, announced)
            self._make_room(part, announced or _STEP)
            with part.open("wb") as file:
                async for piece in answer.content.iter_chunked(_PIECE):
                    size += len(piece)
                    self._check_length(image, size)
                    if size > self._arriving[part]:
                        self._make_room(part, size + _STEP)
                    await asyncio.to_thread(_take, digest, file, piece)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
        if digest.hexdigest() != image.sha256:
            self._log.warn(f"{image.url[:200]} has the sha256 {digest.hexdigest()}, and {image.sha256} was ordered")
            raise PermanentError(f"{image.url[:200]} is not what was ordered", hint=f"check its sha256; {_SEE_LOG}")

    @asynccontextmanager
    async def _answer(self, image: Image) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask for an image, and where the answer points elsewhere, ask there: if we may."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENT_S)
        url, headers = image.url, {"Accept-Encoding": "identity"}
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False, auto_decompress=False) as client:
            for _ in range(_MOST_HOPS):
                async with client.get(url, headers=headers, allow_redirects=False) as answer:
                    if answer.status == _FOUND:
                        yield answer
                        return
                    if answer.status not in _POINTERS:
                        self._log.warn(f"{image.url[:200]} answered {answer.status}")
                        break
                    url = urljoin(url, answer.headers.get("Location", ""))
                if not is_allowed(url, self._origins):
                    self._log.warn(f"{image.url[:200]} points to {url[:200]}, which is below no --image-origin")
                    break
            else:
                self._log.warn(f"{image.url[:200]} points from one address to the next")
        raise BlockedError(f"{image.url[:200]} cannot be fetched", hint=f"is it there? {_SEE_LOG}")

    def _check_length(self, image: Image, size: int) -> None:
        if size > self._largest:
            hint = f"images of this host have at most {self._largest} bytes"
            raise PermanentError(f"{image.url[:200]} is too long", hint=hint)

    def _make_room(self, part: Path, size: int) -> None:
        """Make room for a file to grow: unused files are removed; it may not grow if that is not enough."""
        self._arriving[part] = size
        images = []
        for path in self._folder.iterdir():
            if path.suffix == ".part" and path not in self._arriving:
                path.unlink(missing_ok=True)  # of an agent that was killed
            elif _SHA256.fullmatch(path.name):
                images.append((path.stat().st_mtime_ns, path, path.stat().st_size))
        over = sum(self._arriving.values()) + sum(size for _, _, size in images) - self._limit
        if over <= 0:
            return
        kept = {*self._lain_over(), *self._held}
        for _, path, length in sorted(images):
            if over > 0 and path.name not in kept:
                path.unlink(missing_ok=True)
                over -= length
        if over > 0:
            raise BlockedError(
                f"the images of this host's VMs leave no room for another in {self._limit} bytes",
                hint="its operator gives them more: hostler agent --image-cache",
            )


def _take(digest: hashlib._Hash, file: BinaryIO, piece: bytes) -> None:
    digest.update(piece)
    file.write(piece)
