"""How hosts join, come back, change their credential and are locked out."""

from __future__ import annotations

import pytest

from hostler.control.access import tokens
from hostler.control.access.errors import (
    ForbiddenError,
    HostExistsError,
    JoinRejectedError,
    UnauthenticatedError,
)
from hostler.control.access.secrets import make_secret, parse_secret
from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows import hosts, keys
from hostler.errors import InputError
from tests.control.access.principals import ROOT, S, make_principal, on_both, repeatable_random

HOUR = 3600 * S


class Site:
    """A database with one administrator, short to speak to."""

    def __init__(self, database) -> None:
        self.database = database
        self.random = repeatable_random()

    def write(self, work):
        return self.database.submit(work).result(30)

    def token(self, host_name: str = "", *, by=ROOT, now_ns: int = 0, **rest):
        asked = {"by": by, "host_name": host_name, "now_ns": now_ns, "random": self.random} | rest
        return self.write(lambda c: tokens.create_token(c, **asked))

    def join(self, secret: str, name: str = "node-1", identity: str = "id-1", now_ns: int = 1):
        rest = {"name": name, "identity": identity, "now_ns": now_ns, "random": self.random}
        return self.write(lambda c: tokens.join(c, secret, **rest))

    def enter(self, credential: str, now_ns: int = 2):
        return self.database.read_now(lambda c: tokens.authenticate_agent(c, credential, now_ns))

    def rotate(self, used: str, now_ns: int = 2):
        return self.write(lambda c: tokens.rotate_credential(c, used, now_ns=now_ns, random=self.random))[1]

    def use(self, credential: str, now_ns: int = 2) -> None:
        hashed = parse_secret(credential, "credential").hash
        self.write(lambda c: tokens.end_old_credential(c, "id-1", hashed, now_ns=now_ns))

    def lacks(self, credential: str, *, is_same: bool = False) -> bool:
        return self.database.read_now(lambda c: tokens.may_lack_new_credential(c, credential, is_same=is_same))

    def is_good(self, credential: str, now_ns: int = 2) -> bool:
        try:
            self.enter(credential, now_ns)
        except UnauthenticatedError:
            return False
        return True


@pytest.fixture
def site(database) -> Site:
    return Site(database)


@on_both
def test_a_token_gives_a_host_its_credential_once(site):
    row, secret = site.token()
    assert row.expires_ns == HOUR
    joined = site.join(secret)
    assert (joined.is_new, joined.host.name, joined.host.id, joined.token) == (True, "node-1", "id-1", row.id)
    agent = site.enter(joined.credential)
    assert (agent.kind, agent.host, agent.name, agent.role) == ("agent", "id-1", "node-1", "")
    assert joined.credential not in repr(joined)
    with pytest.raises(JoinRejectedError) as caught:
        site.join(secret, "node-2", "id-2")
    assert (caught.value.why, caught.value.subject, caught.value.status) == ("used", row.id, 401)


@on_both
def test_of_many_hosts_that_use_one_token_at_once_one_joins(site):
    _, secret = site.token()

    def submit(number: int):
        rest = {
            "name": f"node-{number}",
            "identity": f"id-{number}",
            "now_ns": 1,
            "random": repeatable_random(number * 50 + 500),
        }
        return site.database.submit(lambda c: tokens.join(c, secret, **rest))

    futures = [submit(number) for number in range(8)]
    assert sum(future.exception(30) is None for future in futures) == 1
    assert len(site.database.read_now(hosts.all_alive)) == 1


def test_a_token_is_refused_with_one_answer_and_many_reasons(site):
    made = {name: site.token() for name in ("old", "gone")}
    named = site.token("node-2")[1]
    site.write(lambda c: tokens.revoke_token(c, made["gone"][0].id, by=ROOT, now_ns=1))
    invented = make_secret("token", repeatable_random(900)).text
    tries = [(made["old"][1], HOUR), (made["gone"][1], 2), (named, 2), (invented, 2)]
    found = []
    for secret, now_ns in tries:
        with pytest.raises(JoinRejectedError) as caught:
            site.join(secret, now_ns=now_ns)
        found.append(caught.value)
    assert [error.why for error in found] == ["expired", "revoked", "misnamed", "unknown"]
    assert len({(error.message, error.hint) for error in found}) == 1
    with pytest.raises(JoinRejectedError, match="not the whole") as caught:
        site.join(made["old"][1][:-1])
    assert caught.value.code == "join_refused"
    assert site.join(named, "node-2", "id-2").is_new
    assert site.join(made["old"][1], now_ns=HOUR - 1).is_new


def test_a_hash_is_not_guessed_from_the_id_of_a_token(site):
    row, secret = site.token()
    other = make_secret("token", repeatable_random(900)).text
    mixed = f"hj_{row.id}_{other.split('_')[2]}"
    with pytest.raises(JoinRejectedError) as caught:
        site.join(mixed)
    assert caught.value.why == "mistyped"
    assert site.join(secret).is_new


@pytest.mark.parametrize("ttl_s", [59, 7 * 24 * 3600 + 1, 0, -1])
def test_a_token_lives_a_minute_to_a_week(site, ttl_s):
    with pytest.raises(InputError, match="a token that lives"):
        site.token(ttl_s=ttl_s)
    assert site.token(ttl_s=60)[0].expires_ns == 60 * S
    assert site.token(ttl_s=7 * 24 * 3600)[0].expires_ns == 7 * 24 * HOUR


def test_only_administrators_of_the_fleet_make_and_revoke_tokens(site):
    for by in (make_principal("editor"), make_principal("admin", "shop"), make_principal("admin", scopes=("vm.*",))):
        with pytest.raises(ForbiddenError):
            site.token(by=by)
        with pytest.raises(ForbiddenError):
            site.write(lambda c, by=by: tokens.revoke_token(c, "x", by=by, now_ns=1))
    with pytest.raises(ForbiddenError, match="expires later"):
        site.token(by=make_principal("admin", until_ns=HOUR - 1))
    assert site.token(by=make_principal("admin", until_ns=HOUR))[0].actor == "key:someone"
    with pytest.raises(NotFoundError):
        site.write(lambda c: tokens.revoke_token(c, "x", by=ROOT, now_ns=1))


def test_revoking_a_token_twice_is_the_same_as_once(site):
    row, _ = site.token()
    for now_ns in (5, 6):
        assert (
            site.write(lambda c, now_ns=now_ns: tokens.revoke_token(c, row.id, by=ROOT, now_ns=now_ns)).revoked_ns == 5
        )


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "-a", "a-", "é", "x" * 254, "a\n"])
def test_a_name_that_no_host_can_have_is_refused_and_the_token_stays(site, name):
    _, secret = site.token()
    with pytest.raises(InputError, match="is not a name"):
        site.join(secret, name)
    if name:
        with pytest.raises(InputError, match="is not a name"):
            site.token(name)
    assert site.join(secret).is_new


@on_both
def test_a_token_for_anybody_does_not_take_over_a_host_and_stays_unused(site):
    credential = site.join(site.token()[1]).credential
    row, secret = site.token()
    with pytest.raises(HostExistsError) as caught:
        site.join(secret)
    assert "make a token for host node-1" in caught.value.hint
    assert site.is_good(credential)
    assert site.database.read_now(lambda c: keys.find_token(c, row.id)).used_ns is None
    assert site.join(secret, "node-2", "id-2").is_new


@on_both
def test_a_fresh_token_that_names_the_host_replaces_its_credential(site):
    old = site.join(site.token()[1]).credential
    older = site.rotate(old)
    back = site.join(site.token("node-1")[1], identity="id-9")
    assert (back.is_new, back.host.id) == (False, "id-1")
    assert (site.is_good(old), site.is_good(older), site.is_good(back.credential)) == (False, False, True)


def test_the_name_of_a_deleted_host_is_free(site):
    first = site.join(site.token()[1])
    gone = hosts.HostRow(id="id-1", name="node-1", version=first.host.version, deleted_ns=5)
    site.write(lambda c: hosts.save(c, gone))
    assert not site.is_good(first.credential)
    assert site.join(site.token()[1], identity="id-2").host.id == "id-2"


@on_both
def test_rotated_credential_ends_after_first_use_of_new_one_plus_overlap(site):
    first = site.join(site.token()[1]).credential
    second = site.rotate(first, now_ns=2)
    year = 365 * 24 * HOUR
    assert (site.is_good(first, year), site.is_good(second, year)) == (True, True)
    site.use(second, now_ns=year)
    end = year + 300 * S
    assert (site.is_good(first, end - 1), site.is_good(first, end), site.is_good(second, end)) == (True, False, True)
    site.use(second, now_ns=end - 1)
    assert not site.is_good(first, end), "later uses give it no more time"
    with pytest.raises(UnauthenticatedError):
        site.rotate(first, now_ns=end)


@on_both
def test_only_the_newest_credential_ends_the_one_before(site):
    first = site.join(site.token()[1]).credential
    lost = site.rotate(first)
    newest = site.rotate(first)
    site.use(lost)
    site.use(first)
    assert site.is_good(first, HOUR)
    site.use(newest)
    assert not site.is_good(first, HOUR)


@on_both
def test_who_may_lack_the_new_credential(site):
    first = site.join(site.token()[1]).credential
    assert not site.lacks(first)
    second = site.rotate(first)
    assert (site.lacks(first), site.lacks(second)) == (True, False)
    site.use(second)
    assert (site.lacks(first), site.lacks(first, is_same=True)) == (False, True)


@on_both
def test_an_agent_that_never_got_its_new_credential_is_not_locked_out(site):
    first = site.join(site.token()[1]).credential
    lost = [site.rotate(first) for _ in range(3)]
    assert site.is_good(first)
    assert [site.is_good(one) for one in lost] == [False, False, True]


def test_a_revoked_credential_opens_nothing(site):
    first = site.join(site.token()[1]).credential
    second = site.rotate(first)
    with pytest.raises(ForbiddenError):
        site.write(lambda c: tokens.revoke_credential(c, "id-1", by=make_principal("operator")))
    site.write(lambda c: tokens.revoke_credential(c, "id-1", by=ROOT))
    assert (site.is_good(first), site.is_good(second)) == (False, False)
    assert site.join(site.token("node-1")[1]).host.id == "id-1"


def test_a_key_is_no_credential(site):
    key = make_secret("key", repeatable_random(800)).text
    with pytest.raises(UnauthenticatedError, match="an agent's credential is needed here, and this is an API key"):
        site.enter(key)
