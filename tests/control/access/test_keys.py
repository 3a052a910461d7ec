"""API keys in the store: made by whom, good for what and for how long."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.access import keys
from hostler.control.access.errors import ForbiddenError, UnauthenticatedError
from hostler.control.access.principals import Principal
from hostler.control.access.secrets import make_secret
from hostler.control.store import open_database
from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows import keys as rows
from hostler.errors import InputError
from tests.control.access.principals import ROOT, S, make_principal, on_both, repeatable_random
from tests.control.databases import PATIENT


@pytest.fixture
def write(database):
    return lambda work: database.submit(work).result(30)


@pytest.fixture
def make(write):
    random = repeatable_random()

    def create(by: Principal = ROOT, *, now_ns: int = 10, **rest):
        asked = {"name": "ci", "role": "editor", "project": "shop"} | rest
        return write(lambda c: keys.create_key(c, by=by, now_ns=now_ns, random=random, **asked))

    return create


@pytest.fixture
def enter(database):
    return lambda secret, now_ns=11: database.read_now(lambda c: keys.authenticate(c, secret, now_ns))


def why(enter, secret: str, now_ns: int = 11) -> UnauthenticatedError:
    with pytest.raises(UnauthenticatedError) as caught:
        enter(secret, now_ns)
    return caught.value


@on_both
def test_a_key_makes_its_bearer_what_it_was_made_for(make, enter):
    row, secret = make(scopes=["vm.*"], expires_ns=100)
    assert enter(secret) == Principal(
        id=row.id, name="ci", kind="key", role="editor", project="shop", scopes=("vm.*",), until_ns=100
    )
    assert row.actor == "key:root"


def test_the_secret_is_nowhere_in_the_row(make):
    row, secret = make()
    assert secret not in str(row)
    assert secret.split("_")[2] not in str(row)


def test_outside_nobody_learns_why_a_key_is_not_accepted(make, write, enter):
    expiring, first = make(expires_ns=100)
    revoked, second = make()
    write(lambda c: keys.revoke_key(c, revoked.id, by=ROOT, now_ns=20))
    other = make()[1]
    write(lambda c: keys.revoke_key(c, other.split("_")[1], by=ROOT, now_ns=20))
    forged = make_secret("key", repeatable_random(500)).text
    errors = [why(enter, first, 100), why(enter, second, 21), why(enter, forged, 21)]
    assert [error.why for error in errors] == ["expired", "revoked", "unknown"]
    assert [error.subject for error in errors] == [expiring.id, revoked.id, forged.split("_")[1]]
    assert len({(error.message, error.hint, error.code, error.status) for error in errors}) == 1
    assert why(enter, first[:-1]).why == "mistyped"
    assert enter(first, 99).role == "editor"


@on_both
def test_the_first_key_is_made_once_for_all_replicas(database, enter):
    def first(number: int):
        return database.submit(lambda c: keys.first_admin_key(c, 1, repeatable_random(number * 100)))

    made = [future.result(30) for future in [first(number) for number in range(6)]]
    secrets = [one for one in made if one is not None]
    assert len(secrets) == 1
    assert all(enter(secrets[0]).why_not(name) is None for name in ("host.admin", "key.create", "quota.change"))


def test_two_replicas_that_start_at_once_make_one_first_key(postgres):
    name = postgres.new_database()
    replicas = [open_database(postgres.address(name), limits=PATIENT) for _ in range(2)]

    def first(number: int):
        return replicas[number % 2].submit(lambda c: keys.first_admin_key(c, 1, repeatable_random(number * 100)))

    try:
        made = [future.result(30) for future in [first(number) for number in range(8)]]
        assert sum(one is not None for one in made) == 1
        assert replicas[0].read_now(rows.count_keys) == 1
    finally:
        for one in replicas:
            one.close()
        postgres.drop_database(name)


def test_there_is_no_first_key_once_there_was_any(database, make, write):
    row, _ = make()
    write(lambda c: keys.revoke_key(c, row.id, by=ROOT, now_ns=20))
    assert write(lambda c: keys.first_admin_key(c, 30, repeatable_random(900))) is None


def test_owner_of_the_database_gets_in_again(database, write, enter):
    _, secret = write(lambda c: keys.make_admin_key(c, name="rescue", now_ns=5, random=repeatable_random(700)))
    assert enter(secret).why_not("host.admin") is None


@pytest.mark.parametrize(
    ("by", "asked", "reason"),
    [
        (make_principal("editor", "shop"), {}, "key.create needs the role admin"),
        (make_principal("admin", "shop"), {"project": "bank"}, "for project shop only"),
        (make_principal("admin", "shop"), {"project": ""}, "for project shop only"),
        (make_principal("admin", scopes=("key.*", "vm.*")), {"scopes": ["*"]}, r"do not include \*"),
        (make_principal("admin", scopes=("key.*", "vm.*")), {"scopes": ["host.read"]}, "do not include host.read"),
        (make_principal("admin", scopes=("vm.*",)), {}, "leave out key.create"),
        (make_principal("admin", until_ns=50), {}, "expires later"),
        (make_principal("admin", until_ns=50), {"expires_ns": 51}, "expires later"),
        (Principal(id="h", kind="agent", role="admin", host="h"), {}, "an agent may only report"),
    ],
)
def test_nobody_makes_a_key_stronger_than_himself(database, make, by, asked, reason):
    with pytest.raises(ForbiddenError, match=reason) as caught:
        make(by, **asked)
    assert caught.value.hint
    assert database.read_now(rows.count_keys) == 0


def test_without_scopes_a_key_has_its_makers(make, enter):
    _, secret = make(make_principal("admin", scopes=("key.*", "vm.*")), role="admin")
    assert enter(secret).scopes == ("key.*", "vm.*")


@pytest.mark.parametrize(
    "asked",
    [
        {"role": "root"}, {"scopes": ["vm.fly"]}, {"scopes": []}, {"name": ""}, {"name": "x" * 254}, {"name": "a\nb"},
        {"expires_ns": 10},
    ],
)  # fmt: skip
def test_a_key_that_makes_no_sense_is_refused(make, asked):
    with pytest.raises(InputError):
        make(**asked)


def test_a_damaged_row_gives_no_rights(database, write, enter):
    secret = make_secret("key", repeatable_random())
    row = rows.ApiKeyRow(id=secret.id, hash=secret.hash, role="admin", body=b'{"scopes": 7}')
    write(lambda c: rows.insert_key(c, row))
    assert enter(secret.text).why_not("vm.read") is not None


@on_both
def test_a_rotated_key_works_until_the_overlap_is_over(make, write, enter):
    row, old = make(scopes=["vm.*"], expires_ns=10**15)
    mine = enter(old)

    def rotate(by: Principal, identity: str = row.id, **rest):
        return write(lambda c: keys.rotate_key(c, identity, by=by, now_ns=20, random=repeatable_random(300), **rest))

    made, new = rotate(mine, overlap_s=60)
    assert made.id != row.id
    assert msgspec.structs.replace(enter(new, 21), id=row.id) == mine
    assert enter(old, 20 + 60 * S - 1).until_ns == 20 + 60 * S
    assert why(enter, old, 20 + 60 * S).why == "revoked"
    with pytest.raises(InputError, match="revoked or expired"):
        rotate(ROOT)
    with pytest.raises(ForbiddenError):
        rotate(enter(new, 21), make()[0].id)
    with pytest.raises(InputError, match="overlap"):
        rotate(ROOT, made.id, overlap_s=-1)


def test_rotating_gives_a_key_no_longer_life(make, write, enter):
    row, secret = make(expires_ns=1000)
    made, new = write(lambda c: keys.rotate_key(c, row.id, by=enter(secret), now_ns=20, random=repeatable_random(300)))
    assert made.expires_ns == 1000
    assert why(enter, secret, 20).why == "revoked"
    assert why(enter, new, 1000).why == "expired"
    with pytest.raises(InputError, match="revoked or expired"):
        write(lambda c: keys.rotate_key(c, made.id, by=ROOT, now_ns=1000, random=repeatable_random(400)))


@on_both
def test_a_key_in_its_overlap_can_be_revoked_at_once(make, write, enter):
    row, old = make()
    write(lambda c: keys.rotate_key(c, row.id, by=ROOT, now_ns=20, random=repeatable_random(300), overlap_s=60))
    assert write(lambda c: keys.revoke_key(c, row.id, by=ROOT, now_ns=30)).revoked_ns == 30
    assert why(enter, old, 31).why == "revoked"
    assert write(lambda c: keys.revoke_key(c, row.id, by=ROOT, now_ns=40)).revoked_ns == 30


def test_a_key_is_revoked_by_itself_or_by_an_administrator_of_its_project(make, write, enter):
    (one, own), (two, _) = make(role="viewer"), make()

    def revoke(identity: str, by: Principal):
        return write(lambda c: keys.revoke_key(c, identity, by=by, now_ns=20))

    with pytest.raises(ForbiddenError):
        revoke(two.id, enter(own))
    with pytest.raises(ForbiddenError):
        revoke(two.id, make_principal("admin", "bank"))
    with pytest.raises(ForbiddenError):
        revoke(two.id, Principal(id=two.id, kind="agent", host=two.id))
    assert revoke(one.id, enter(own)).revoked_ns == 20
    assert revoke(two.id, make_principal("admin", "shop")).revoked_ns == 20
    with pytest.raises(NotFoundError):
        revoke("nobody", ROOT)


def test_a_session_asks_for_its_key_by_id(database, make, write):
    row, _ = make()
    assert database.read_now(lambda c: keys.find_key(c, row.id, 11)).id == row.id
    write(lambda c: keys.revoke_key(c, row.id, by=ROOT, now_ns=20))
    for identity, reason in ((row.id, "revoked"), ("nobody", "unknown")):
        with pytest.raises(UnauthenticatedError) as caught:
            database.read_now(lambda c, identity=identity: keys.find_key(c, identity, 21))
        assert caught.value.why == reason
