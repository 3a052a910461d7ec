"""What agents and the control plane say to each other, as data. Both sides speak versions N and N-1.

An agent joins once by a token and gets a credential. Then it registers (boot id, size, all VMs that it finds), reports
(what changed; an empty report is a heartbeat) and asks for orders by long poll. A report carries boot id, lease epoch
and a sequence number: what is older than the last one taken is refused, so replays and delayed packets change nothing.

New in protocol 2: orders that leave disks on shared storage alone (``keeps_shared``), polls under the epoch of their
registration, VMs that departed with the generation of the order by which (``departed``), and whether a watchdog works
(``is_watched``). With an agent that speaks 1 the control plane does without: it is never told to remove a VM whose
disks belong to another host. ``taken`` came later: who does not tell it has no unknown VMs that are counted. So did
``has_disks``, ``since``, ``unavailable`` and what was left out: an older side does without them.
An agent that does not send ``watched_vms`` has a watchdog that is trusted with one VM.

The limits (``MOST_VMS`` and others) are what an agent says at most; the control plane takes no more.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "JOIN_PATH", "LONGEST_NAME", "LONGEST_TEXT", "MOST_TAKEN", "MOST_UNKNOWN", "MOST_VMS", "OLDEST_PROTOCOL",
    "ORDERS_PATH", "PROTOCOL", "REGISTER_PATH", "REPORT_PATH", "SPOKEN", "Capabilities", "Departed", "DeviceHere",
    "Disk", "HostSize", "Image", "Join", "Joined", "Migration", "Order", "Orders", "Register", "Registered",
    "Report", "Reported", "Taken", "Trouble", "UnavailableStorage", "VmNetwork", "VmReport", "shorten",
    "shorten_trouble",
]  # fmt: skip

PROTOCOL = 2
OLDEST_PROTOCOL = 1
SPOKEN = tuple(range(OLDEST_PROTOCOL, PROTOCOL + 1))

# POST, JSON in and out; all but joining carry the credential as a bearer token. ORDERS_PATH is a GET with the query
# ``from`` (a version of the orders, 0 for all of them), ``wait_s`` and, from protocol 2 on, ``epoch`` (that of the
# registration); 204 says that nothing changed meanwhile.
JOIN_PATH = "/agent/v1/join"
REGISTER_PATH = "/agent/v1/register"
REPORT_PATH = "/agent/v1/report"
ORDERS_PATH = "/agent/v1/orders"

Power = Literal["running", "stopped", "paused", "absent"]
State = Literal[
    "absent", "creating", "stopped", "starting", "running", "paused", "stopping", "landing", "leaving", "left"
]


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """Where a disk begins: a path under the host's configured roots, or a URL with the hash of what is there."""

    path: str = ""
    url: str = ""
    sha256: str = ""


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """One disk; ``storage`` names shared storage of the host, empty means a local overlay file."""

    size_bytes: int
    image: Image | None = None
    storage: str = ""


class VmNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """User-mode network, or a bridge of the host by its name."""

    kind: Literal["none", "user", "bridge"] = "user"
    bridge: str = ""


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a live migration. ``is_source`` sends to the landing, the other side prepares one."""

    is_source: bool
    address: str = ""
    secret: str = ""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a host is to make of one VM. ``restarts`` only grows: a running VM is restarted once for what it grew by."""

    vm: str
    generation: int
    power: Power
    name: str = ""
    cpu_count: int = 1
    cpu_millis: int = 1000
    memory_bytes: int = 0
    disks: tuple[Disk, ...] = ()
    network: VmNetwork = VmNetwork()
    devices: tuple[str, ...] = ()
    restarts: int = 0
    migration: Migration | None = None
    kernel: str = ""  # direct boot of a diskless VM: paths under the configured roots
    initrd: str = ""
    kernel_arguments: str = ""
    when_silent: Literal["keep", "stop"] = "keep"  # what a watchdog does with it when the host lost the control plane
    # From protocol 2 on: absent here, while its disks on shared storage belong to the VM that is elsewhere.
    keeps_shared: bool = False
    has_disks: bool = False  # its disks were made before: one that is not found is missing, and is not made again
    since: int = 0  # the generation in which this host was chosen: disks that it made before that do not count


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver can do."""

    pause: bool = False
    resize_running: bool = False
    live_migration: bool = False
    disks: bool = False
    bridges: bool = False
    devices: bool = False
    acceleration: Literal["", "kvm", "tcg"] = ""  # VMs run by the processor, or in software; empty: it is not known


class DeviceHere(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a host."""

    kind: str
    model: str = ""


class HostSize(msgspec.Struct, frozen=True, kw_only=True):
    """What a host has in all."""

    cpu_millis: int
    memory_bytes: int
    disk_bytes: int = 0
    devices: tuple[DeviceHere, ...] = ()


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """The first message: a one-time token for a credential."""

    token: str
    name: str
    protocols: tuple[int, ...] = SPOKEN


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """The answer; the credential is shown this once."""

    host: str
    credential: str
    protocol: int


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why a VM is not as ordered."""

    kind: Literal["transient", "permanent", "blocked"]
    code: str
    message: str
    hint: str = ""
    failures: int = 0


class VmReport(msgspec.Struct, frozen=True, kw_only=True):
    """How one VM is. ``generation`` is that of the order which it fulfils; of an unknown one it is 0."""

    vm: str
    state: State
    generation: int = 0
    restarts: int = 0
    trouble: Trouble | None = None
    failed_generation: int = 0
    landing_address: str = ""
    landing_secret: str = ""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What a VM without an order takes of its host, as far as its driver can tell."""

    vm: str
    cpu_millis: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0


class UnavailableStorage(msgspec.Struct, frozen=True, kw_only=True):
    """Storage of a host that is out of reach; "" is the place of local disks. ``why`` is for operators."""

    name: str
    why: str


class Register(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that started, or came back: all that it has."""

    boot: str  # new at each start of the machine
    agent: str  # new at each start of the agent
    version: str
    driver: str
    capabilities: Capabilities
    size: HostSize
    labels: tuple[tuple[str, str], ...] = ()
    storages: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    vms: tuple[VmReport, ...] = ()
    unknown: tuple[str, ...] = ()  # found here without an order: never touched
    taken: tuple[Taken, ...] = ()  # by VMs without an order, those that it made itself included
    is_inventory_known: bool = True
    is_watched: bool = False  # a watchdog was seen to work here a moment ago
    watched_vms: int = 1  # so many VMs it stops in time; the default is that of agents that stop one after the other
    sequence: int = 0  # grows with each registration of this start of the agent, so that an old one is refused
    protocols: tuple[int, ...] = ()  # those that this agent speaks; empty: as when it joined
    vms_left_out: int = 0  # VMs for which this message had no room: reports tell of them
    unknown_left_out: int = 0  # names of unknown VMs that are not told at all
    unavailable: tuple[UnavailableStorage, ...] = ()  # VMs whose disks lie there are not known to be absent


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: under which epoch to report, and how often; what the host may give where that is not its size."""

    epoch: int
    heartbeat_s: float
    silent_after_s: float
    stop_after_s: float = 0.0  # lease age at which VMs that say so are stopped; 0: never
    limit: HostSize | None = None  # overcommitment and reserve applied
    credential: str = ""  # replaces the one that was shown, from now on
    protocol: int = 1  # that both sides speak from now on; who speaks no other does not say it


class Departed(msgspec.Struct, frozen=True, kw_only=True):
    """A VM that is no longer here, with the generation of its order, so that old reports are recognized."""

    vm: str
    generation: int


class Tries(msgspec.Struct, frozen=True, kw_only=True):
    """How often a host was to do something for its VMs, by what came of it: done, or a trouble of a kind."""

    done: int = 0
    transient: int = 0
    permanent: int = 0
    blocked: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What changed since the last report that was answered; with nothing in it, a heartbeat."""

    boot: str
    agent: str
    epoch: int
    sequence: int
    orders: int = 0  # the version of the orders that it knows
    vms: tuple[VmReport, ...] = ()
    gone: tuple[str, ...] = ()  # all that departed, for those who do not read more of it
    departed: tuple[Departed, ...] = ()
    unknown: tuple[str, ...] | None = None
    taken: tuple[Taken, ...] | None = None  # as in Register: all of it, where something of it changed
    size: HostSize | None = None
    refused_teardown: int = 0  # VMs that it keeps although they are ordered absent, until bulk is allowed
    is_watched: bool = False  # as in Register, sent each time
    watched_vms: int = 1  # as in Register
    unknown_left_out: int = 0  # as in Register, if ``unknown`` is sent
    tries: Tries | None = None  # since the last report that was answered; None: nothing was tried


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. ``resync``: register again."""

    resync: bool = False
    has_orders: bool = False


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a poll: all orders when ``is_full``, else those that changed since the version asked from."""

    version: int
    is_full: bool
    orders: tuple[Order, ...] = ()
    allows_bulk_teardown: bool = False


LONGEST_NAME = 253  # characters of whatever names something
LONGEST_TEXT = 1000  # characters of whatever people read
MOST_VMS = 10_000  # of one host, in one message
MOST_TAKEN = 2**62  # of one resource by one VM: the engine counts no further
MOST_UNKNOWN = 1000  # VMs without an order that are reported


def shorten(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text of so many characters at most; an ellipsis says that there was more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shorten_trouble(trouble: Trouble) -> Trouble:
    """Return a trouble whose texts are not too long for those who keep and show them."""
    message, hint = shorten(trouble.message), shorten(trouble.hint)
    if (message, hint) == (trouble.message, trouble.hint):
        return trouble
    return msgspec.structs.replace(trouble, message=message, hint=hint)
