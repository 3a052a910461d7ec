"""The lease: one holder at a time, a higher epoch for each new one, and nothing more from those before."""

from __future__ import annotations

import threading

import msgspec
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from hostler.control.store import Database, open_database
from hostler.control.store.database import open_backend
from hostler.control.store.errors import DatabaseInUseError, LeaseLostError
from hostler.control.store.history import lease, log
from hostler.control.store.history.lease import LeaderLease
from hostler.errors import InputError
from tests.control.databases import PATIENT
from tests.control.store.row_makers import fact


def take(database: Database, holder: str, ttl_s: float = 60.0) -> LeaderLease | None:
    return database.submit(lambda connection: lease.take(connection, holder, ttl_s)).result(30)


def run_out(database: Database) -> None:
    """Let the lease's time be over, without waiting for it."""
    set_clock(database, 3600)


def set_clock(database: Database, seconds: int) -> None:
    """Let the lease be as if the database's clock had been set forward by so much, or back."""
    moved = text(f"UPDATE lease SET renewed_ms = renewed_ms - {seconds * 1000}")
    database.submit(lambda connection: connection.execute(moved).rowcount).result(30)


def append_as(database: Database, epoch: int) -> list[int]:
    def work(connection: Connection) -> list[int]:
        lease.check_epoch(connection, epoch)
        return log.append(connection, [fact(str(epoch).encode())])

    return database.submit(work).result(30)


def test_the_first_to_ask_gets_it_and_the_second_must_wait(database):
    held = take(database, "a")
    assert (held.holder, held.epoch) == ("a", 1)
    assert take(database, "b") is None
    found = database.read_now(lease.read)
    assert (found.holder, found.epoch, found.is_held) == ("a", 1, True)
    assert 0 < found.left_s <= 60


def test_nobody_has_it_at_first(database):
    found = database.read_now(lease.read)
    assert (found.holder, found.epoch, found.is_held) == ("", 0, False)
    with pytest.raises(LeaseLostError):
        append_as(database, 0)


def test_taking_what_one_has_keeps_the_epoch(database):
    assert take(database, "a").epoch == 1
    assert take(database, "a").epoch == 1
    run_out(database)
    assert take(database, "a").epoch == 1


def test_every_change_of_holder_raises_the_epoch(database):
    first = take(database, "a")
    assert append_as(database, first.epoch) == [1]
    run_out(database)
    second = take(database, "b")
    assert second.epoch == first.epoch + 1
    with pytest.raises(LeaseLostError) as caught:
        append_as(database, first.epoch)
    assert "b" in caught.value.message
    with pytest.raises(LeaseLostError):
        database.submit(lambda connection: lease.renew(connection, first)).result(30)
    assert not database.submit(lambda connection: lease.release(connection, first)).result(30)
    assert append_as(database, second.epoch) == [2]


def test_renewing_keeps_others_out(database):
    held = take(database, "a", 3600.0)
    run_out(database)
    assert database.submit(lambda connection: lease.renew(connection, held)).result(30).left_s == 3600.0
    assert take(database, "b") is None


def test_a_dead_holder_keeps_it_no_longer_because_the_clock_was_set_back(database):
    held = take(database, "dead")
    set_clock(database, -3600)
    assert not database.read_now(lease.read).is_held
    assert take(database, "b").epoch == held.epoch + 1


def test_a_clock_that_was_set_back_a_little_takes_it_from_nobody(database):
    take(database, "a")
    set_clock(database, -30)
    assert take(database, "b") is None


def test_a_live_holder_keeps_it_when_the_clock_was_set_back(database):
    held = take(database, "a")
    set_clock(database, -3600)
    assert database.submit(lambda connection: lease.renew(connection, held)).result(30).epoch == held.epoch
    assert database.read_now(lease.read).is_held
    assert take(database, "b") is None


def test_what_was_given_back_is_taken_at_once_and_is_no_longer_ours(database):
    held = take(database, "a")
    assert database.submit(lambda connection: lease.release(connection, held)).result(30)
    with pytest.raises(LeaseLostError):
        append_as(database, held.epoch)
    with pytest.raises(LeaseLostError):
        database.submit(lambda connection: lease.renew(connection, held)).result(30)
    assert take(database, "b").epoch == held.epoch + 1


def test_the_same_holder_that_gave_it_back_gets_a_new_epoch(database):
    held = take(database, "a")
    database.submit(lambda connection: lease.release(connection, held)).result(30)
    assert take(database, "a").epoch == held.epoch + 1


@pytest.mark.parametrize(("holder", "ttl_s"), [("", 5.0), ("a", 0.0), ("a", -1.0)])
def test_a_lease_without_a_holder_or_a_time_is_refused(database, holder, ttl_s):
    with pytest.raises(InputError):
        take(database, holder, ttl_s)


def test_of_many_who_want_it_at_once_one_gets_it(postgres_url):
    replicas = [open_database(postgres_url, limits=PATIENT) for _ in range(4)]
    barrier = threading.Barrier(4)
    won: list[LeaderLease | None] = []

    def run(number: int) -> None:
        barrier.wait()
        won.append(take(replicas[number], f"r{number}"))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found.epoch for found in won if found] == [1]
    for replica in replicas:
        replica.close()


def test_takeover_comes_between_two_transactions_of_the_leader(postgres_url):
    leader, follower = open_database(postgres_url, limits=PATIENT), open_database(postgres_url, limits=PATIENT)
    first = take(leader, "a")
    run_out(leader)
    checked, go = threading.Event(), threading.Event()

    def slowly(connection: Connection) -> None:
        lease.check_epoch(connection, first.epoch)
        checked.set()
        go.wait(60)
        log.append(connection, [fact(b"in time")])

    last = leader.submit(slowly)
    assert checked.wait(30)
    taking = follower.submit(lambda connection: (lease.take(connection, "b", 60.0), log.head(connection)))
    go.set()
    last.result(30)
    second, head = taking.result(30)
    assert (second.epoch, head) == (first.epoch + 1, 1)
    with pytest.raises(LeaseLostError):
        append_as(leader, first.epoch)
    leader.close()
    follower.close()


def test_epoch_check_keeps_lease_from_being_taken(postgres_url):
    database = open_database(postgres_url, limits=PATIENT)
    held = take(database, "a")
    run_out(database)
    backend = open_backend(postgres_url, msgspec.structs.replace(PATIENT, lock_s=0.1))
    with backend.writing.connect() as one, backend.writing.connect() as other:
        lease.check_epoch(one, held.epoch)
        with pytest.raises(OperationalError, match="lock timeout"):
            lease.take(other, "b", 60.0)
        other.rollback()
        one.rollback()
        assert lease.take(other, "b", 60.0).epoch == held.epoch + 1
        other.rollback()
    backend.close()
    database.close()


def test_however_often_it_changes_hands_epochs_in_the_log_never_go_back(postgres_url):
    replicas = [open_database(postgres_url, limits=PATIENT) for _ in range(3)]

    def take_and_tell(replica: Database, holder: str) -> LeaderLease | None:
        def work(connection: Connection) -> LeaderLease | None:
            held = lease.take(connection, holder, 0.001)
            if held is not None:
                log.append(connection, [fact(str(held.epoch).encode())])
            return held

        return replica.submit(work).result(30)

    def run(number: int) -> None:
        for turn in range(15):
            held = take_and_tell(replicas[number], f"r{number}-{turn}")
            if held is None:
                continue
            for _ in range(2):
                try:
                    append_as(replicas[number], held.epoch)
                except LeaseLostError:
                    break

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run_out(replicas[0])
    assert take_and_tell(replicas[0], "last") is not None
    epochs = [int(entry.body) for entry in replicas[0].read_now(lambda c: log.read_after(c, 0, 1000))]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) > 1
    for replica in replicas:
        replica.close()


def test_lease_of_dead_holder_is_waited_for_until_it_runs_out(database):
    told: list[str] = []
    take(database, "killed", ttl_s=0.5)
    # A busy machine may pause for longer than that, so the first look is as if it had come at once.
    first = [msgspec.structs.replace(database.read_now(lease.read), left_s=0.5)]

    def look() -> LeaderLease:
        return first.pop() if first else database.read_now(lease.read)

    lease.wait_for_end(look, "the database", told.append, hint="stop it")
    assert not database.read_now(lease.read).is_held
    assert [line.startswith("killed leads or ended without notice; its lease lasts ") for line in told] == [True]


def test_lease_that_nobody_holds_is_not_waited_for(database):
    told: list[str] = []
    lease.wait_for_end(lambda: database.read_now(lease.read), "the database", told.append, hint="stop it")
    assert told == []


@pytest.mark.parametrize("how", ["renewed", "taken by another"])
def test_lease_of_live_holder_ends_the_wait_at_once(database, how):
    """The holder shows a sign of life between the first look and the second."""
    looks: list[LeaderLease] = []

    def look() -> LeaderLease:
        if looks and how == "renewed":
            database.submit(lambda connection: lease.renew(connection, held)).result(30)
        elif looks:
            run_out(database)
            take(database, "b", ttl_s=40.0)
        looks.append(database.read_now(lease.read))
        return looks[-1]

    held = take(database, "a", ttl_s=40.0)
    with pytest.raises(DatabaseInUseError, match=r"in use: [ab] leads, and renews its lease") as caught:
        lease.wait_for_end(look, "the database", lambda line: None, hint="stop it")
    assert caught.value.hint == "stop it"
    assert len(looks) == 2


def test_lease_that_lasts_for_an_hour_is_not_waited_for(database):
    take(database, "a", ttl_s=3600.0)
    with pytest.raises(DatabaseInUseError, match=r"a leads, and its lease lasts 3\d\d\d\.\d s more"):
        lease.wait_for_end(lambda: database.read_now(lease.read), "the database", pytest.fail, hint="stop it")
