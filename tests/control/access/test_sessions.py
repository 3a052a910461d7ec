"""Sessions: only what we signed passes, only for as long as its key does, and only from our own pages."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.control.access import sessions
from hostler.control.access.errors import ForgedRequestError, UnauthenticatedError
from hostler.control.access.principals import Principal
from hostler.control.access.sessions import (
    DashboardSession,
    check_request,
    clear_cookie,
    csrf_token,
    open_session,
    seal,
    session_principal,
    set_cookie,
    unseal,
)
from tests.control.access.principals import S, on_both, repeatable_random

SECRET = bytes(range(32))
KEY = Principal(id="abc", name="me", role="editor", project="shop", scopes=("vm.*",))
NOW = 1_000 * S
SESSION = open_session(KEY, now_ns=NOW, random=repeatable_random())
COOKIE = seal(SESSION, SECRET)


def refused(cookie: str, secret: bytes = SECRET, now_ns: int = NOW) -> str:
    with pytest.raises(UnauthenticatedError) as caught:
        unseal(cookie, secret, now_ns)
    return caught.value.why


def test_a_cookie_is_read_back_until_its_time_is_over():
    assert unseal(COOKIE, SECRET, NOW) == SESSION
    end = NOW + 12 * 3600 * S
    assert unseal(COOKIE, SECRET, end - 1) == SESSION
    assert refused(COOKIE, now_ns=end) == "expired"
    assert KEY.id in str(base64.urlsafe_b64decode(COOKIE[3:].split(".")[0] + "=="))


def test_a_session_never_outlives_its_key():
    ending = msgspec.structs.replace(KEY, until_ns=NOW + 5)
    assert open_session(ending, now_ns=NOW, random=repeatable_random()).expires_ns == NOW + 5


def test_only_a_key_opens_a_session():
    for kind in ("session", "agent"):
        with pytest.raises(UnauthenticatedError, match="API key is needed"):
            open_session(msgspec.structs.replace(KEY, kind=kind), now_ns=NOW, random=repeatable_random())


@given(st.integers(0, len(COOKIE) - 1), st.characters())
def test_a_cookie_with_one_other_character_is_forged(place, letter):
    changed = COOKIE[:place] + letter + COOKIE[place + 1 :]
    if changed != COOKIE:
        assert refused(changed) == "forged"


@given(st.integers(0, len(COOKIE) - 1))
def test_a_part_of_a_cookie_is_forged(length):
    assert refused(COOKIE[:length]) == "forged"
    assert refused(COOKIE[length + 1 :]) == "forged"
    assert refused(COOKIE + COOKIE[:length] + "=") == "forged"


@given(st.text(max_size=300))
def test_no_text_is_a_cookie(text):
    assert refused(text) == "forged"


@given(st.binary(min_size=32, max_size=32), st.sampled_from(("viewer", "admin")), st.integers(0, 2**62))
def test_cookie_signed_with_another_key_is_forged(secret, role, expires_ns):
    if secret != SECRET:
        assert refused(seal(DashboardSession("abc", role, "", expires_ns, "seed"), secret)) == "forged"


def test_a_signature_for_a_form_is_none_for_a_session():
    payload = COOKIE.removeprefix("hs_").split(".")[0]
    assert refused(f"hs_{payload}.{csrf_token(SESSION, SECRET)}") == "forged"


def test_a_cookie_of_another_version_of_ours_means_logging_in_again():
    payload = base64.urlsafe_b64encode(b'["abc"]').decode().rstrip("=")
    assert refused(f"hs_{payload}.{sessions._sign(SECRET, 'session', payload)}") == "changed"


def test_a_session_acts_as_its_key_does_now():
    acting = session_principal(SESSION, KEY)
    assert (acting.kind, acting.id, acting.scopes, acting.role) == ("session", "abc", ("vm.*",), "editor")
    for change in ({"id": "x"}, {"role": "admin"}, {"role": "viewer"}, {"project": ""}, {"kind": "agent"}):
        with pytest.raises(UnauthenticatedError) as caught:
            session_principal(SESSION, msgspec.structs.replace(KEY, **change))
        assert caught.value.why == "changed"


GOOD = {"method": "POST", "host": "plane:8470", "origin": "http://plane:8470", "token": csrf_token(SESSION, SECRET)}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"origin": "", "referer": "http://plane:8470/vms/1?x=y"},
        {"origin": "HTTP://PLANE:8470"},
        {"host": "plane", "origin": "http://plane"},
        {"host": "plane", "origin": "https://plane"},
        {"host": "plane:443", "origin": "https://plane", "is_secure": True},
        {"host": "[::1]:8470", "origin": "http://[::1]:8470"},
        {"method": "GET", "token": "", "origin": "http://evil.example"},
        {"method": "head", "token": "", "origin": ""},
    ],
)
def test_a_change_from_our_own_page_is_taken(change):
    check_request(SESSION, SECRET, **GOOD | change)


@pytest.mark.parametrize(
    "change",
    [
        {"token": ""},
        {"token": GOOD["token"][:-1]},
        {"token": "ü"},
        {"token": csrf_token(open_session(KEY, now_ns=NOW, random=repeatable_random(7)), SECRET)},
        {"origin": ""},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://evil.example", "referer": "http://plane:8470/"},
        {"origin": "http://plane"},
        {"origin": "http://plane:8471"},
        {"origin": "http://plane:8470.evil.example"},
        {"origin": "http://plane@evil.example:8470"},
        {"origin": "ftp://plane:8470"},
        {"origin": "http://[::1"},
        {"origin": "http://plane:99999"},
        {"origin": "", "referer": "http://evil.example/http://plane:8470/"},
        {"is_secure": True},
        {"method": "DELETE", "token": ""},
        {"method": "ANYTHING", "token": ""},
    ],
)
def test_a_change_from_elsewhere_is_refused(change):
    with pytest.raises(ForgedRequestError) as caught:
        check_request(SESSION, SECRET, **GOOD | change)
    assert caught.value.status == 403
    assert caught.value.hint


def test_a_login_must_come_from_our_own_page():
    sessions.check_origin(host="plane:8470", origin="http://plane:8470")
    for source in ({}, {"origin": "http://evil.example"}, {"referer": "http://evil.example/plane:8470"}):
        with pytest.raises(ForgedRequestError):
            sessions.check_origin(host="plane:8470", **source)


def test_scripts_and_other_sites_never_see_the_cookie():
    assert set_cookie("hs_x.y", is_secure=False) == ("hostler=hs_x.y; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict")
    assert set_cookie("v", is_secure=True).startswith("__Host-hostler=v; Path=/;")
    assert set_cookie("v", is_secure=True).endswith("; HttpOnly; SameSite=Strict; Secure")
    assert clear_cookie(is_secure=False).startswith("hostler=; Path=/; Max-Age=0;")


@on_both
def test_all_replicas_sign_with_the_same_secret(database):
    def make(number: int):
        return database.submit(lambda c: sessions.signing_secret(c, number, repeatable_random(number * 100)))

    found = {future.result(30) for future in [make(number) for number in range(5)]}
    assert len(found) == 1
    assert len(found.pop()) == 32


def test_a_renewed_secret_ends_all_sessions(database):
    random = repeatable_random()
    before = database.submit(lambda c: sessions.signing_secret(c, 1, random)).result(30)
    cookie = seal(SESSION, before)
    after = database.submit(lambda c: sessions.renew_signing_secret(c, 2, random)).result(30)
    assert database.read_now(lambda c: sessions.signing_secret(c, 3, random)) == after
    assert refused(cookie, after) == "forged"
