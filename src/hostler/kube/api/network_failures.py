"""What went wrong on the way to the server, in words that help, and whether the server may have acted.

A connection that was never made carried nothing. Everything later may have arrived. Used by ``http``.
"""

from __future__ import annotations

import socket
import ssl

import aiohttp

from hostler.kube.api.access import Access
from hostler.kube.api.transport import TransportError

__all__ = ["lost_answer", "unsent"]


def unsent(access: Access, error: BaseException) -> TransportError:
    """Say that no connection was made, so that nothing was done."""
    what, hint = _explain(error)
    return TransportError(f"{access.server}: {what}", may_have_acted=False, hint=hint)


def lost_answer(access: Access, error: Exception, timeout_s: float) -> TransportError:
    """Say that the connection failed later, or the time was up."""
    if isinstance(error, aiohttp.InvalidURL):
        return TransportError(f"{access.server}: the address is not valid", may_have_acted=False)
    if isinstance(error, TimeoutError):
        return TransportError(f"{access.server}: no answer within {timeout_s:g} s", may_have_acted=True)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        what = "the server closed the connection without an answer"
    elif isinstance(error, aiohttp.ClientPayloadError):
        what = "the connection broke in the middle of the answer"
    elif isinstance(error, aiohttp.ClientResponseError | ValueError):
        what = "what answers is no HTTP server as we know it"
    else:
        what = f"the connection broke ({_reason(error)})"
    return TransportError(f"{access.server}: {what}", may_have_acted=True)


def _explain(error: BaseException) -> tuple[str, str]:
    """Return what is wrong with a connection that was not made, and what a person can do."""
    cause: BaseException = error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
    elif isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        if "hostname" in cause.verify_message.lower() or "ip address" in cause.verify_message.lower():
            hint = "use a name that the certificate has, or tls-server-name in the kubeconfig"
            return f"the server's certificate is for another name ({cause.verify_message})", hint
        hint = "the kubeconfig's certificate-authority is not the one of this cluster; was the cluster made anew?"
        return f"the server's certificate is not trusted ({cause.verify_message})", hint
    if isinstance(cause, ssl.SSLError | ssl.CertificateError):
        return f"TLS failed ({_reason(cause)})", "does the server speak TLS at this port?"
    if isinstance(cause, socket.gaierror):
        return "the server's name is not known", "check the server's address in the kubeconfig"
    if isinstance(error, TimeoutError):
        return "no connection in time", "is the server reachable from here?"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused", "is the cluster up, and does the kubeconfig name the right port?"
    return f"no connection ({_reason(cause)})", "is the cluster up, and reachable from here?"


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
