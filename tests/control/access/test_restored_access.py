"""What a restored database accepts: nothing that was revoked, spent or replaced after the backup was made."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from hostler.control.access import keys, tokens
from hostler.control.access.errors import ForbiddenError, JoinRejectedError, UnauthenticatedError
from hostler.control.access.secrets import hash_secret
from hostler.control.access.sessions import open_session, seal, signing_secret, unseal
from hostler.control.fleet.hosts.host_body import HostBody
from hostler.control.restore import access_choices
from hostler.control.store import Connection, open_database
from hostler.control.store.backup.backup import backup, restore, restore_in_place
from hostler.control.store.errors import BackupError
from hostler.control.store.rows import hosts
from hostler.errors import InputError
from tests.control.access.principals import ROOT, S, make_principal, repeatable_random
from tests.control.databases import PATIENT
from tests.control.postgres import nobody_connected

T = TypeVar("T")
RANDOM = repeatable_random()
NOW = time.time_ns()


class ControlPlane:
    """A database with keys, tokens and hosts, and the backup that was made of it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.saved = folder / "saved"
        self.write(lambda c: self.set_up(c))
        self.close()
        backup(url, self.saved)
        self.close()

    def set_up(self, connection: Connection) -> None:
        """Make what the backup has: an administrator, two keys, an open token, two hosts, a session."""
        self.admin, self.admin_secret = keys.make_admin_key(connection, name="admin", now_ns=NOW, random=RANDOM)
        kinds = {"by": ROOT, "now_ns": NOW, "random": RANDOM}
        self.ci, self.ci_secret = keys.create_key(connection, name="ci", role="editor", **kinds)
        self.old, self.old_secret = keys.create_key(connection, name="old", role="viewer", **kinds)
        _, self.open_token = tokens.create_token(connection, **kinds)
        self.credentials = {}
        for name in ("north", "south"):
            _, token = tokens.create_token(connection, **kinds)
            admitted = tokens.join(connection, token, name=name, identity=f"id-{name}", now_ns=NOW, random=RANDOM)
            hosts.save(connection, msgspec.structs.replace(admitted.host, body=msgspec.json.encode(HostBody())))
            self.credentials[name] = admitted.credential
        self.signing = signing_secret(connection, NOW, RANDOM)
        principal = keys.authenticate(connection, self.admin_secret, NOW)
        self.cookie = seal(open_session(principal, now_ns=NOW, random=RANDOM), self.signing)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run a work of the store, and close the database again."""
        database = open_database(self.url, limits=PATIENT)
        try:
            return database.submit(work).result(60)
        finally:
            database.close()

    def close(self) -> None:
        """Wait until nobody uses the database."""
        if self.url.startswith("postgresql"):
            nobody_connected(self.url)

    def accepts_key(self, secret: str) -> bool:
        """Say whether a request with this key is let in."""
        return self._is_accepted(lambda c: keys.authenticate(c, secret, NOW))

    def accepts_agent(self, credential: str) -> bool:
        """Say whether an agent with this credential is let in."""
        return self._is_accepted(lambda c: tokens.authenticate_agent(c, credential, NOW))

    def _is_accepted(self, work: Callable[[Connection], object]) -> bool:
        try:
            self.write(work)
        except UnauthenticatedError:
            return False
        return True


@pytest.fixture(params=["sqlite", "postgresql"])
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> ControlPlane:
    """Give a control plane of either kind of database, and its backup."""
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return ControlPlane(url, tmp_path)


def test_key_revoked_after_backup_stays_revoked_by_forced_restore(plane: ControlPlane) -> None:
    """The replaced database knows what was revoked: keys that it accepts stay good, and no others."""
    plane.write(lambda c: keys.revoke_key(c, plane.old.id, by=ROOT, now_ns=NOW))
    plane.close()
    restore(plane.saved, plane.url, is_forced=True)
    assert not plane.accepts_key(plane.old_secret)
    assert plane.accepts_key(plane.admin_secret)
    assert plane.accepts_key(plane.ci_secret)


def test_key_rotated_after_backup_stays_rejected_by_forced_restore(plane: ControlPlane) -> None:
    """A key that was replaced by a newer one is not a way in again."""
    plane.write(lambda c: keys.rotate_key(c, plane.ci.id, by=ROOT, now_ns=NOW, random=RANDOM))
    plane.close()
    restore(plane.saved, plane.url, is_forced=True)
    assert not plane.accepts_key(plane.ci_secret)


def test_open_tokens_are_void_after_a_restore(plane: ControlPlane) -> None:
    """Nobody knows whether an open token of a backup was spent since."""
    restore(plane.saved, plane.url, is_forced=True)
    with pytest.raises(JoinRejectedError) as caught:
        plane.write(
            lambda c: tokens.join(c, plane.open_token, name="east", identity="id-east", now_ns=NOW, random=RANDOM)
        )
    assert caught.value.why == "revoked"


def test_sessions_end_with_a_restore(plane: ControlPlane) -> None:
    """The cookie of a session that was open when the backup was made opens nothing."""
    restore(plane.saved, plane.url, is_forced=True)
    secret = plane.write(lambda c: signing_secret(c, NOW, RANDOM))
    with pytest.raises(UnauthenticatedError) as caught:
        unseal(plane.cookie, secret, NOW)
    assert caught.value.why == "forged"


def test_every_key_is_rejected_after_a_restore_in_place(plane: ControlPlane) -> None:
    """Without the database that was replaced, nobody knows which keys were revoked since."""
    restore_in_place(plane.url)
    for secret in (plane.admin_secret, plane.ci_secret, plane.old_secret):
        assert not plane.accepts_key(secret)


def test_credential_revoked_after_backup_stays_revoked(plane: ControlPlane) -> None:
    """A locked-out agent stays locked out, and all others register as before."""
    plane.write(lambda c: tokens.revoke_credential(c, "id-north", by=ROOT))
    plane.close()
    restore(plane.saved, plane.url, is_forced=True)
    assert not plane.accepts_agent(plane.credentials["north"])
    assert plane.accepts_agent(plane.credentials["south"])


def test_credential_rotated_after_backup_is_the_one_that_counts(plane: ControlPlane) -> None:
    """The agent's new credential is carried over from the replaced database, and the old one ends."""
    rotated = plane.write(
        lambda c: tokens.rotate_credential(c, plane.credentials["north"], now_ns=NOW, random=RANDOM)[1]
    )
    plane.write(lambda c: tokens.authenticate_agent(c, rotated, NOW))
    plane.write(lambda c: hosts.end_old_credential(c, "id-north", hash_secret(rotated), until_ns=NOW - S))
    plane.close()
    restore(plane.saved, plane.url, is_forced=True)
    assert plane.accepts_agent(rotated)
    assert not plane.accepts_agent(plane.credentials["north"])


def test_restore_to_empty_database_reports_what_is_unconfirmed(plane: ControlPlane, request, tmp_path) -> None:
    """Keys wait for an administrator, one new key lets one in, and agents register as before."""
    other = f"sqlite:///{tmp_path / 'other.db'}"
    if plane.url.startswith("postgresql"):
        server = request.getfixturevalue("postgres")
        other = server.address(server.new_database())
    report = restore(plane.saved, other, access=access_choices()).access
    assert report is not None
    assert not report.is_compared
    assert {key.name: key.state for key in report.keys} == dict.fromkeys(("admin", "ci", "old"), "unconfirmed")
    assert {host.name: host.credential for host in report.hosts} == dict.fromkeys(("north", "south"), "accepted")
    assert len(report.void_tokens) == 1
    plane.url = other
    assert plane.accepts_key(report.admin_key)
    assert plane.accepts_agent(plane.credentials["north"])
    by = plane.write(lambda c: keys.authenticate(c, report.admin_key, NOW))
    plane.write(lambda c: keys.confirm_key(c, plane.ci.id, by=by, now_ns=NOW))
    assert plane.accepts_key(plane.ci_secret)
    assert not plane.accepts_key(plane.old_secret)


def test_named_keys_are_confirmed_and_named_hosts_revoked_by_the_restore(plane: ControlPlane) -> None:
    """The operator who restores has the database in hand, and may decide at once."""
    plane.close()
    access = access_choices([plane.admin.id], ["north"])
    report = restore_in_place(plane.url, access=access).access
    assert report is not None
    assert report.admin_key == ""
    assert plane.accepts_key(plane.admin_secret)
    assert not plane.accepts_key(plane.ci_secret)
    assert not plane.accepts_agent(plane.credentials["north"])
    assert plane.accepts_agent(plane.credentials["south"])
    plane.close()
    restore_in_place(plane.url, access=access_choices(["all"]))
    assert plane.accepts_key(plane.ci_secret)


def test_unknown_key_to_confirm_is_rejected_before_anything_changes(plane: ControlPlane) -> None:
    """A mistyped id does not leave a database that accepts nobody."""
    with pytest.raises(BackupError, match="no API key nonsense"):
        restore_in_place(plane.url, access=access_choices(["nonsense"]))
    assert plane.accepts_key(plane.admin_secret)


def test_revoked_key_is_not_confirmed_by_all(plane: ControlPlane) -> None:
    """What the replaced database revoked stays revoked, whatever the operator names."""
    plane.write(lambda c: keys.revoke_key(c, plane.old.id, by=ROOT, now_ns=NOW))
    plane.close()
    report = restore(plane.saved, plane.url, is_forced=True, access=access_choices(["all"])).access
    assert report is not None
    assert {key.name: key.state for key in report.keys} == {"admin": "accepted", "ci": "accepted", "old": "revoked"}
    assert not plane.accepts_key(plane.old_secret)


def test_host_deleted_after_backup_gets_no_credential_back(plane: ControlPlane) -> None:
    """An agent whose host was deleted does not register by what the backup knew."""
    gone = plane.write(lambda c: hosts.get(c, "id-north"))
    plane.write(lambda c: hosts.save(c, msgspec.structs.replace(gone, deleted_ns=NOW)))
    plane.close()
    report = restore(plane.saved, plane.url, is_forced=True).access
    assert report is not None
    assert {host.name: host.credential for host in report.hosts} == {"north": "revoked", "south": "accepted"}
    assert not plane.accepts_agent(plane.credentials["north"])


def test_unconfirmed_key_stays_so_through_another_restore(plane: ControlPlane) -> None:
    """Restoring twice confirms nothing, and an unconfirmed key cannot rotate itself into a good one."""
    restore_in_place(plane.url)
    plane.close()
    restore(plane.saved, plane.url, is_forced=True)
    assert not plane.accepts_key(plane.ci_secret)
    with pytest.raises(InputError, match="waits for confirmation"):
        plane.write(lambda c: keys.rotate_key(c, plane.ci.id, by=ROOT, now_ns=NOW, random=RANDOM))


def test_key_of_a_project_confirms_no_key(plane: ControlPlane) -> None:
    """Confirming needs an administrator of all projects."""
    restore_in_place(plane.url)
    for by in (make_principal("admin", "shop"), make_principal("editor")):
        with pytest.raises(ForbiddenError):
            plane.write(functools.partial(keys.confirm_key, identity=plane.ci.id, by=by, now_ns=NOW))
    assert not plane.accepts_key(plane.ci_secret)
