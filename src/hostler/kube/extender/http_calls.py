"""Call extenders over HTTP: POST JSON, expect 200; each extender has its own time limit."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

import aiohttp

from hostler.errors import InputError, UnavailableError
from hostler.kube.settings import ExtenderSettings
from hostler.runtime.transport import TransportError

__all__ = ["HttpCalls"]

_MAX_BYTES = 256 * 2**20
_JSON = {"Content-Type": "application/json"}


class HttpCalls:
    """Calls extenders; an instance is a ``Call``. Close it after use."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[ExtenderSettings, ssl.SSLContext | bool] = {}

    async def __call__(self, extender: ExtenderSettings, verb: str, body: bytes) -> bytes:
        """Post to a verb of an extender and return the response body."""
        url = f"{extender.url_prefix.rstrip('/')}/{verb}"
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(
                url,
                data=body,
                headers=_JSON,
                ssl=self._context(extender),
                server_hostname=extender.server_name or None,
                timeout=aiohttp.ClientTimeout(total=extender.timeout_s),
                allow_redirects=False,
            ) as response:
                answer = await response.content.read(_MAX_BYTES)
                while len(answer) < _MAX_BYTES and (more := await response.content.read(_MAX_BYTES - len(answer))):
                    answer += more
                if response.status != 200:
                    text = " ".join(answer[:200].decode("utf-8", "replace").split())
                    raise UnavailableError(f"{verb} answers {response.status}: {text}")
                return answer
        except aiohttp.ClientConnectorError as error:
            raise TransportError(f"{verb} cannot be reached: {error}", may_have_acted=False) from error
        except TimeoutError as error:
            raise TransportError(
                f"{verb} did not answer within {extender.timeout_s:g} s", may_have_acted=True
            ) from error
        except aiohttp.ClientError as error:
            raise TransportError(f"{verb} failed: {error}", may_have_acted=True) from error

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _context(self, extender: ExtenderSettings) -> ssl.SSLContext | bool:
        if extender not in self._contexts:
            self._contexts[extender] = tls_context(extender)
        return self._contexts[extender]


def tls_context(extender: ExtenderSettings) -> ssl.SSLContext | bool:
    """Return the TLS settings of an extender; True if it has none of its own."""
    special = (extender.ca_file, extender.ca_data, extender.cert_file, extender.cert_data)
    if extender.is_insecure and not any(special[2:]):
        return False
    if not any(special):
        return True
    try:
        context = ssl.create_default_context(cafile=extender.ca_file or None, cadata=extender.ca_data or None)
        if extender.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if extender.cert_file or extender.cert_data:
            _show_certificate(context, extender)
    except (OSError, ValueError) as error:
        raise InputError(
            f"the certificates of extender {extender.url_prefix} cannot be used: {error}", hint="check the files"
        ) from error
    return context


def _show_certificate(context: ssl.SSLContext, extender: ExtenderSettings) -> None:
    """Load our certificate and key; OpenSSL takes them from files only."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, data, file in (
            ("cert", extender.cert_data, extender.cert_file),
            ("key", extender.key_data, extender.key_file),
        ):
            path = Path(folder, name) if data else Path(file)
            if data:
                path.touch(mode=0o600)
                path.write_text(data)
            paths.append(path)
        context.load_cert_chain(paths[0], paths[1] if paths[1].name else None)
