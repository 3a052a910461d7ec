"""The roll of hosts: what was read before something was revoked does not count after it."""

from __future__ import annotations

import asyncio

import pytest

from hostler.agent.messages import Join
from hostler.control.access import Authenticator, UnauthenticatedError, tokens
from hostler.control.fleet.agents.credential_cache import CredentialCache
from hostler.control.fleet.agents.sessions import AgentSessions
from hostler.control.store.rows import hosts
from tests.control.fleet.control_plane import ADMIN, ControlPlane, run_control_plane
from tests.wait import until


class _Slowly:
    """A database from which the roll comes only when it is let, with what was there when it was asked for."""

    def __init__(self, database) -> None:
        self._database = database
        self.begun = 0
        self.may_end = asyncio.Event()

    async def read(self, work):
        found = await self._database.read(work)
        if work is hosts.list_credentials:
            self.begun += 1
            await self.may_end.wait()
        return found


def roll_of(control: ControlPlane, slowly: _Slowly) -> CredentialCache:
    clock = control.clock
    keeper = Authenticator(control.database)
    return CredentialCache(slowly, keeper, AgentSessions(), life_s=3600.0, clock=clock.wall, steady=clock.steady)


async def test_what_was_read_before_a_revocation_lets_nobody_in_after_it(either_url):
    async with run_control_plane(either_url) as control:
        joined = await control.leader.fleet.join(Join(token=await control.token(), name="north"))
        slowly = _Slowly(control.database)
        roll = roll_of(control, slowly)
        early = asyncio.ensure_future(roll.host_of(joined.credential, ""))
        await until(lambda: slowly.begun == 1)
        await control.database.write(lambda one: tokens.revoke_credential(one, joined.host, by=ADMIN))
        roll.invalidate()
        late = asyncio.ensure_future(roll.host_of(joined.credential, ""))
        slowly.may_end.set()
        assert await early == joined.host  # it was asked before
        with pytest.raises(UnauthenticatedError):
            await late
        with pytest.raises(UnauthenticatedError):
            await roll.host_of(joined.credential, "")
        assert slowly.begun == 2, "it is read again once, not for everybody who asks"


async def test_many_who_ask_at_once_share_one_look_even_while_it_is_spoiled(url):
    async with run_control_plane(url) as control:
        joined = await control.leader.fleet.join(Join(token=await control.token(), name="north"))
        slowly = _Slowly(control.database)
        roll = roll_of(control, slowly)
        asked = [asyncio.ensure_future(roll.host_of(joined.credential, "")) for _ in range(20)]
        await until(lambda: slowly.begun == 1)
        roll.invalidate()  # a host joins: earlier questions need not wait for that
        slowly.may_end.set()
        assert set(await asyncio.gather(*asked)) == {joined.host}
        assert slowly.begun == 1
