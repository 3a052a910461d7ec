"""From the words of ``hostler agent`` to an agent or a watchdog that runs; used by ``agent``."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Literal

import msgspec

from hostler.agent.drivers.qemu_origins import read_origin
from hostler.agent.running import (
    Acceleration,
    DriverKind,
    DriverOptions,
    Home,
    connect,
    hypervisor_of,
    make_driver,
    token_command,
)
from hostler.agent.settings import Settings
from hostler.cli.control.agent_options import check_host_name, read_labels, read_pairs, read_secret_lines, read_size
from hostler.cli.control.agent_running import run, watch, watchdog_words
from hostler.cli.control.extras import needs
from hostler.cli.control.fake_options import read_delays, read_faults
from hostler.cli.terminal import note
from hostler.config import state_folder
from hostler.errors import InputError
from hostler.model import parse_quantity
from hostler.telemetry.log import Log

__all__ = ["Words", "start"]


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said to ``hostler agent``."""

    server: str
    ca_file: Path | None
    insecure: bool
    token_file: str
    driver: DriverKind | None
    name: str
    state_dir: Path | None
    labels: tuple[str, ...]
    storages: tuple[str, ...]
    image_roots: tuple[Path, ...]
    image_origins: tuple[str, ...]
    image_cache: str
    size: str
    delays: tuple[str, ...]
    faults: tuple[str, ...]
    libvirt_uri: str
    libvirt_pool: str
    vm_dir: Path | None
    vm_user: str
    vm_uids: str
    acceleration: Acceleration
    bridges: tuple[str, ...]
    landing_address: str
    landing_port: int
    watchdog: Literal["beside", "only", "none"]
    log_format: Literal["text", "json"]


def start(words: Words) -> None:
    """Run an agent, or its watchdog, until a signal ends it; all that can be refused is refused before."""
    kind = _kind(words)
    host = check_host_name(words.name or socket.gethostname())
    home = Home((words.state_dir or state_folder() / "agents" / host).absolute())
    options, settings = _options(words, host, home), _settings(words, host)
    transport = connect(words.server, authority_file=words.ca_file, is_insecure=words.insecure)
    log = Log(lambda line: note(line, label=""), form=words.log_format)
    with needs("agent", f"agent --driver {kind}"):
        driver = make_driver(kind, options, tell=log.warn)
    hypervisor = hypervisor_of(kind, options)
    if words.watchdog == "only":
        asyncio.run(watch(home, driver, hypervisor, log))
        return
    beside = watchdog_words(words.server, kind, options) if words.watchdog == "beside" else ()
    with home.held():
        token = _token(home, words.token_file, host)
        log.info("agent starts", name=host, driver=kind, server=words.server, state=home.folder)
        if words.insecure and not words.server.startswith("https://"):
            log.warn("the credential can be read on its way: --insecure", server=words.server)
        asyncio.run(run(home, driver, transport, settings, token, beside, hypervisor, log))


def _kind(words: Words) -> DriverKind:
    """Return the driver that was named; what is for the fake alone is refused for others."""
    if words.driver is None:
        raise InputError("no driver was named", hint="--driver qemu or libvirt; fake, where nothing is to run")
    for option, given in (("--size", words.size), ("--delay", words.delays), ("--fault", words.faults)):
        if given and words.driver != "fake":
            raise InputError(f"{option} is not for the driver {words.driver}", hint="real hosts know that themselves")
    return words.driver


def _options(words: Words, host: str, home: Home) -> DriverOptions:
    for origin in words.image_origins:
        read_origin(origin)
    return DriverOptions(
        host=host,
        folder=home.folder,
        size=read_size(words.size),
        image_roots=tuple(_image_root(root) for root in words.image_roots),
        image_origins=words.image_origins,
        image_cache_bytes=parse_quantity(words.image_cache),
        storages=tuple(sorted(read_pairs("--storage", words.storages).items())),
        libvirt_uri=words.libvirt_uri,
        libvirt_pool=words.libvirt_pool,
        vm_folder=words.vm_dir.absolute() if words.vm_dir is not None else None,
        vm_user=words.vm_user,
        vm_uids=words.vm_uids,
        acceleration=words.acceleration,
        bridges=words.bridges,
        landing_address=words.landing_address,
        landing_port=words.landing_port,
        delays_s=read_delays(words.delays),
        faults=read_faults(words.faults),
    )


def _settings(words: Words, host: str) -> Settings:
    return Settings(
        name=host,
        labels=read_labels(words.labels),
        storages=tuple(sorted(read_pairs("--storage", words.storages))),
        bridges=tuple(sorted(set(words.bridges))),
    )


def _token(home: Home, token_file: str, host: str) -> str:
    """Return the token to join with; empty where this agent has joined already."""
    if home.credentials.load() is not None:
        return ""
    if not token_file:
        raise InputError(
            f"this agent never joined: {home.folder} holds no credential",
            hint=f"give --token-file with a join token; an admin makes one: {token_command(host)}",
        )
    return read_secret_lines("--token-file", token_file)[0]


def _image_root(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"--image-root {folder} is no folder", hint="name the folder that holds the images")
    return folder.resolve()
