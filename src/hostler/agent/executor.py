"""Carries out one action on a driver and returns its outcome; errors become problems of a kind."""

from __future__ import annotations

import asyncio
from typing import Literal

from hostler.agent.core.state import Action, ActionOutcome, DriverVerb
from hostler.agent.driver import BlockedError, Driver, DriverError, PermanentError
from hostler.agent.messages import Trouble
from hostler.errors import InternalError

__all__ = ["perform", "trouble_of"]


async def perform(driver: Driver, action: Action, *, grace_s: float, timeout_s: float | None = None) -> ActionOutcome:
    """Do it within its time. Only a cancellation is raised."""
    try:
        if timeout_s is None:
            return await _call(driver, action, grace_s)
        async with asyncio.timeout(timeout_s + grace_s):
            return await _call(driver, action, grace_s)
    except Exception as error:  # a driver's bug must not end the agent that keeps the other VMs
        return ActionOutcome(trouble=trouble_of(error, action))


def trouble_of(error: Exception, action: Action) -> Trouble:
    """Classify a failure."""
    if isinstance(error, DriverError):
        return Trouble(kind=_kind_of(error), code=error.code, message=error.message, hint=error.hint)
    if isinstance(error, TimeoutError):
        message = f"{action.verb} of {action.vm} took too long and was given up"
        return Trouble(kind="transient", code="driver_timeout", message=message, hint="it is tried again")
    return Trouble(
        kind="transient",
        code="driver_broke",
        message=f"{action.verb} of {action.vm} broke: {type(error).__name__}: {error}",
        hint="please report it; it is tried again",
    )


def _kind_of(error: DriverError) -> Literal["transient", "permanent", "blocked"]:
    if isinstance(error, BlockedError):
        return "blocked"
    return "permanent" if isinstance(error, PermanentError) else "transient"


async def _call(driver: Driver, action: Action, grace_s: float) -> ActionOutcome:
    vm, order = action.vm, action.order
    if action.verb is DriverVerb.FORGET:
        return ActionOutcome()
    if order is None:
        raise InternalError(f"{action.verb} of {vm} without an order")
    match action.verb:
        case DriverVerb.CREATE:
            await driver.create(order)
        case DriverVerb.START:
            await driver.start(vm)
        case DriverVerb.STOP | DriverVerb.RESTART:
            await driver.stop(vm, grace_s=grace_s)
        case DriverVerb.PAUSE:
            await driver.pause(vm)
        case DriverVerb.RESUME:
            await driver.resume(vm)
        case DriverVerb.RESIZE:
            await driver.resize(vm, order)
        case DriverVerb.DELETE:
            # What makes way for the same VM must not take its disks with it.
            await driver.delete(vm, keeps_shared=order.keeps_shared or order.power != "absent")
        case DriverVerb.AWAIT_LANDING:
            return ActionOutcome(landing=await driver.await_landing(order))
        case DriverVerb.SEND:
            if action.landing is None:
                raise InternalError(f"no target is known for {vm}")
            await driver.send(vm, action.landing)
    return ActionOutcome()
