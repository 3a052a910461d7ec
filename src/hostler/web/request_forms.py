"""What goes with every answer, how forms are read, and fields: values as typed, with errors that name the field."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from hostler.control.api.requests.request_decoder import raw_body
from hostler.control.settings import ControlSettings
from hostler.errors import InputError

__all__ = ["DONE", "HEADERS", "pairs_of", "read_form", "wants_json", "whole_number"]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with less, browsers would not say where our own forms come from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
DONE = {
    "create": "It is written down and gets a place as soon as a host has room.",
    "resize": "It will have its new size as soon as its host has room for it.",
    "start": "It will start.",
    "stop": "It will stop.",
    "restart": "It will stop and start again.",
    "pause": "It will be paused.",
    "resume": "It will continue.",
    "migrate": "It will move to another host.",
    "delete": "The VM will be deleted.",
    "cordon": "It takes no new VMs from now on.",
    "uncordon": "It takes new VMs again.",
    "drain": "It takes no new VMs, and those that can move will leave.",
    "undrain": "It takes new VMs again, and no other VM has to leave.",
    "allow-teardown": "It may remove what it was told to remove.",
    "force-offline": "It counts as offline until its agent registers again.",
    "confirm-dead": "It counts as dead. Its VMs that may start elsewhere do.",
    "host-delete": "The host is gone.",
    "key-confirm": "The key is accepted again.",
}  # what pages say after something was done: never words from an address


def whole_number(place: str, text: str, least: int, most: int) -> int:
    """Return a number that lies between two others; InputError."""
    try:
        value = int(text[:40])
    except ValueError as error:
        raise InputError(f"{place}: {text[:40]!r} is not a whole number", hint=f"{least} to {most}") from error
    if not least <= value <= most:
        raise InputError(f"{place}: {value} is out of range", hint=f"{least} to {most}")
    return value


def pairs_of(place: str, text: str) -> dict[str, str]:
    """Return ``zone=a, disk=ssd`` as keys with values; InputError."""
    found = {}
    for pair in filter(None, (one.strip() for one in text.split(","))):
        key, is_pair, value = pair.partition("=")
        if not is_pair or not key.strip():
            raise InputError(f"{place}: {pair[:40]!r} is not key=value", hint="write zone=a, several with commas")
        found[key.strip()] = value.strip()
    return found


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; InputError for what is no form, too large, or does not come, as for REST."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise InputError("this is not a form", hint="send it from a page of ours")
    settings: ControlSettings = request.app.state.context.settings
    try:
        body = await raw_body(request, wait_s=settings.read_s)
    except ClientDisconnect:
        raise InputError("the form did not come", hint="send it again") from None  # the sender is gone
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=False, max_num_fields=100))
    except ValueError as error:
        raise InputError("the form cannot be read", hint="send it from a page of ours") from error


def wants_json(request: Request) -> bool:
    """Return whether the answer is JSON: for a program, or a link of ours to data that REST has no address for."""
    if request.query_params.get("ask") == "json":
        return True
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted
