"""Where the service may listen, and by which names it answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.control.access.errors import InsecureListenError, MisdirectedError
from hostler.control.access.listen_addresses import (
    Address,
    allowed_names,
    check_host,
    check_listening,
    is_loopback,
    parse_listen,
)
from hostler.errors import InputError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("[::1]:9000", "::1", 9000),
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("Node-1.Example:443", "node-1.example", 443),
        (":9000", "127.0.0.1", 9000),
        ("9000", "127.0.0.1", 9000),
        ("localhost", "localhost", 8470),
        ("[::]", "::", 8470),
    ],
)
def test_an_address_is_read(text, host, port):
    assert parse_listen(text) == Address(host, port)


@pytest.mark.parametrize("text", ["::1", "a b:1", "x:99999", "x:-1", "x:y", "[::1", "http://x:1", "x/y", "[1.2.3.4]:1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(InputError) as caught:
        parse_listen(text)
    assert "HOST:PORT" in caught.value.hint


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"])
def test_loopback_needs_nothing(host):
    assert is_loopback(host)
    assert check_listening(Address(host, 1), has_tls=False, has_authentication=False) is None


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "node", "localhost.example", "127.0.0.1.nip.io", "127.1"]
)
def test_beyond_loopback_tls_and_authentication_are_needed(host):
    assert not is_loopback(host)
    for has_tls, has_authentication in [(False, True), (True, False), (False, False)]:
        options = {"has_tls": has_tls, "has_authentication": has_authentication}
        with pytest.raises(InsecureListenError) as caught:
            check_listening(Address(host, 1), **options)
        assert "--insecure" in caught.value.hint
        assert "--tls-cert and --tls-key" in caught.value.hint
        assert "others can read keys" in str(check_listening(Address(host, 1), **options, is_insecure=True))
    assert check_listening(Address(host, 1), has_tls=True) is None


ALLOWED = allowed_names(Address("0.0.0.0", 80), ["Plane.example.", "10.0.0.7", "fd00::7"])


@pytest.mark.parametrize(
    "header",
    [
        "localhost", "LocalHost:8470", "127.0.0.1:1", "[::1]:8470", "[0:0::1]", "plane.example", "plane.example.:443",
        "10.0.0.7", "[fd00::7]:1",
    ],
)  # fmt: skip
def test_names_of_the_service_are_let_in(header):
    check_host(header, ALLOWED)


@pytest.mark.parametrize(
    "header",
    [
        "", "evil.example", "localhost.evil.example", "plane.example.evil", "0.0.0.0", "[::]", "10.0.0.8", "fd00::7",
        "localhost:80:80", "localhost:x", "me@localhost", "localhost/x", " localhost", "localhost, evil.example",
        "localhost\n", "[localhost]", "*",
    ],
)  # fmt: skip
def test_other_names_are_refused(header):
    with pytest.raises(MisdirectedError) as caught:
        check_host(header, ALLOWED)
    assert "plane.example" in caught.value.hint


@given(st.text(max_size=300))
def test_no_header_breaks_the_check(header):
    try:
        check_host(header, ALLOWED)
    except MisdirectedError:
        return
    assert header.isascii()


def test_where_it_listens_is_a_name_of_its_own_and_a_wrong_one_is_refused():
    assert "node-1" in allowed_names(Address("node-1", 80))
    assert "[fd00::1]" in allowed_names(Address("fd00::1", 80))
    with pytest.raises(InputError, match="is not a host name"):
        allowed_names(Address("node-1", 80), ["https://plane.example"])
