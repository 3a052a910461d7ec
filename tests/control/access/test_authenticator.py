"""The doorkeeper: few reads, no door left open after a revocation, and nobody kept out for a neighbour's mistakes."""

from __future__ import annotations

import asyncio

import pytest

from hostler.control.access import keys, sessions, tokens
from hostler.control.access.authenticator import Authenticator, KeyCache
from hostler.control.access.errors import TooManyRequestsError, UnauthenticatedError
from hostler.control.access.limits import Rate, RateLimits
from hostler.control.access.secrets import make_secret
from hostler.control.store.rows import keys as rows
from tests.control.access.principals import ROOT, S, repeatable_random

SIGNING = bytes(32)


class Counting:
    """A reader that counts, and that lets something happen before it answers."""

    def __init__(self, database) -> None:
        self.database = database
        self.reads = 0
        self.meanwhile = lambda: None

    async def read(self, work):
        self.reads += 1
        found = self.database.read_now(work)
        self.meanwhile()
        return found


class Door:
    def __init__(self, database, **rest) -> None:
        self.database = database
        self.random = repeatable_random()
        self.reader = Counting(database)
        self.keeper = Authenticator(self.reader, **rest)

    def write(self, work):
        return self.database.submit(work).result(30)

    def make_key(self, **rest) -> tuple[str, str]:
        asked = {"name": "x", "role": "viewer", "now_ns": 1, "random": self.random} | rest
        row, secret = self.write(lambda c: keys.create_key(c, by=ROOT, **asked))
        return row.id, secret

    def make_host(self, name: str = "node-1") -> str:
        rest = {"now_ns": 1, "random": self.random}
        _, token = self.write(lambda c: tokens.create_token(c, by=ROOT, **rest))
        return self.write(lambda c: tokens.join(c, token, name=name, identity=f"id-{name}", **rest)).credential

    def key(self, secret: str, now_ns: int = 2, address: str = "10.0.0.1"):
        return asyncio.run(self.keeper.key(secret, address, now_ns))

    def agent(self, credential: str, now_ns: int = 2):
        return asyncio.run(self.keeper.agent(credential, "10.0.0.1", now_ns))

    def session(self, cookie: str, now_ns: int = 2):
        return asyncio.run(self.keeper.session(cookie, SIGNING, "10.0.0.1", now_ns))

    def revoke(self, identity: str, now_ns: int = 3) -> None:
        self.write(lambda c: keys.revoke_key(c, identity, by=ROOT, now_ns=now_ns))

    def fails(self, secret: str, now_ns: int = 2) -> str:
        with pytest.raises((UnauthenticatedError, TooManyRequestsError)) as caught:
            self.key(secret, now_ns)
        return caught.value.code


@pytest.fixture
def door(database) -> Door:
    return Door(database)


def test_many_requests_of_a_key_cost_one_read_in_five_seconds(door):
    identity, secret = door.make_key()
    for now_ns in (2, 3, 5 * S, 5 * S + 1):
        assert door.key(secret, now_ns).id == identity
    assert door.reader.reads == 1
    door.key(secret, 5 * S + 2)
    assert door.reader.reads == 2


def test_many_heartbeats_of_an_agent_cost_one_read_in_five_seconds(door):
    credential = door.make_host()
    for now_ns in (2, 3, 4):
        assert door.agent(credential, now_ns).host == "id-node-1"
    assert door.reader.reads == 1


def test_a_key_revoked_in_this_process_is_refused_at_once(door):
    identity, secret = door.make_key()
    door.key(secret)
    door.revoke(identity)
    door.keeper.forget(identity)
    assert door.fails(secret, 4) == "unauthenticated"


def test_whatever_stays_open_is_reported_each_forgetting(door):
    identity, secret = door.make_key()
    door.key(secret)
    told = []
    door.keeper.on_forget = lambda: told.append(door.fails(secret, 4))
    door.revoke(identity)
    door.keeper.forget(identity)
    assert told == ["unauthenticated"], "and only then, when it is believed no more"


def test_a_key_revoked_elsewhere_is_refused_after_five_seconds_at_most(door):
    identity, secret = door.make_key()
    door.key(secret, 2)
    door.revoke(identity)
    assert door.key(secret, 5 * S + 1).id == identity
    assert door.fails(secret, 5 * S + 2) == "unauthenticated"


def test_a_key_that_was_revoked_while_it_was_read_is_not_kept(door):
    identity, secret = door.make_key()

    def revoke() -> None:
        door.revoke(identity)
        door.keeper.forget(identity)

    door.reader.meanwhile = revoke
    door.key(secret)
    door.reader.meanwhile = lambda: None
    assert door.fails(secret, 4) == "unauthenticated"


def test_a_key_is_not_believed_beyond_its_end(door):
    _, secret = door.make_key(expires_ns=5 * S)
    door.key(secret, 2)
    assert door.fails(secret, 5 * S) == "unauthenticated"


def test_a_credential_that_was_revoked_here_is_refused_at_once(door):
    credential = door.make_host()
    door.agent(credential)
    door.write(lambda c: tokens.revoke_credential(c, "id-node-1", by=ROOT))
    door.keeper.forget("id-node-1")
    with pytest.raises(UnauthenticatedError):
        door.agent(credential)


def test_cached_key_is_not_accepted_as_credential_or_vice_versa(door):
    _, secret = door.make_key()
    credential = door.make_host()
    assert door.key(secret).kind == "key"
    assert door.agent(credential).kind == "agent"
    with pytest.raises(UnauthenticatedError):
        door.agent(secret)
    with pytest.raises(UnauthenticatedError):
        door.key(credential)


def test_a_mistyped_key_costs_no_read(door):
    assert door.fails("hk_nonsense") == "unauthenticated"
    assert door.fails(door.make_host()) == "unauthenticated"
    assert door.reader.reads == 0


def test_address_with_many_failures_is_blocked_for_a_while(database):
    door = Door(database, limits=RateLimits(failures=Rate(2)))
    wrong = [make_secret("key", repeatable_random(500 + 2 * number)).text for number in range(9)]
    assert [door.fails(one) for one in wrong[:5]] == ["unauthenticated"] * 3 + ["too_many_requests"] * 2
    assert door.reader.reads == 3
    assert door.fails("", 2) == "too_many_requests"
    _, good = door.make_key()
    assert door.fails(good) == "too_many_requests"
    assert door.key(good, address="10.0.0.2").role == "viewer"
    assert door.key(good, 2 + 5 * S).role == "viewer"


def test_who_shows_nothing_is_no_failure(database):
    door = Door(database, limits=RateLimits(failures=Rate(1)))
    assert {door.fails("") for _ in range(5)} == {"unauthenticated"}


def test_known_key_is_accepted_from_locked_out_address(database):
    door = Door(database, limits=RateLimits(failures=Rate(1)))
    identity, good = door.make_key()
    door.key(good, 2)
    later = 20 * S
    for number in range(3):
        door.fails(make_secret("key", repeatable_random(500 + 2 * number)).text, later)
    assert door.fails("hk_x", later) == "too_many_requests"
    assert door.key(good, later).id == identity


def test_a_session_acts_for_its_key_and_ends_with_it(door):
    identity, secret = door.make_key()
    session = sessions.open_session(door.key(secret), now_ns=2, random=door.random)
    cookie = sessions.seal(session, SIGNING)
    found, acting = door.session(cookie)
    assert (found, acting.kind, acting.id) == (session, "session", identity)
    reads = door.reader.reads
    door.session(cookie, 3)
    assert door.reader.reads == reads
    door.revoke(identity)
    door.keeper.forget(identity)
    with pytest.raises(UnauthenticatedError) as caught:
        door.session(cookie, 4)
    assert caught.value.why == "revoked"


def test_forged_cookies_count_as_failures_and_old_ones_do_not(database):
    door = Door(database, limits=RateLimits(failures=Rate(1)))
    _, secret = door.make_key()
    session = sessions.open_session(door.key(secret), now_ns=2, random=door.random)
    for _ in range(5):
        with pytest.raises(UnauthenticatedError):
            door.session(sessions.seal(session, SIGNING), session.expires_ns)
    for _ in range(2):
        with pytest.raises(UnauthenticatedError):
            door.session("hs_x.y", session.expires_ns)
    with pytest.raises(TooManyRequestsError):
        door.session("hs_x.y", session.expires_ns)


def test_uses_are_gathered_to_be_written_now_and_then(door):
    identity, secret = door.make_key()
    door.key(secret, 2)
    door.key(secret, 7)
    door.agent(door.make_host())
    uses = door.keeper.take_uses()
    assert uses == {identity: 7}
    assert door.keeper.take_uses() == {}
    door.write(lambda c: rows.note_use(c, identity, uses[identity]))


def test_the_cache_is_bounded_and_still_forgets_by_id():
    cache = KeyCache(most=4)
    for number in range(100):
        principal = type(ROOT)(id=f"k{number}", role="viewer")
        cache.keep(f"name {number}", principal, 0, cache.turn)
    assert len(cache) == 4
    assert cache.find("name 99", 1) is not None
    assert cache.find("name 0", 1) is None
    cache.forget("k99")
    assert cache.find("name 99", 1) is None
    assert not cache.has_met("name 99")
