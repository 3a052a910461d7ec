"""``hostler dev up``: a control plane and a fleet of fake hosts in one process, until told to stop."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from hostler.cli.options import NumberRange, examples
from hostler.cli.terminal import note, say

__all__ = ["up"]


@click.command(
    epilog=examples("hostler dev up", "hostler dev up --hosts 200 --listen 127.0.0.1:9000 --state-dir ~/hostler-dev"),
    short_help="Run a control plane with a fleet of fake hosts, and leave it running.",
)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:8470", show_default=True, help="Where to answer.")
@click.option(
    "--hosts", metavar="N", type=click.IntRange(0, 5000), default=20, show_default=True, help="How many hosts."
)
@click.option(
    "--size", metavar="AMOUNTS", default="", help="How large each host is.  [default: cpu=16,memory=64Gi,disk=1Ti]"
)
@click.option("--silent-after", metavar="SECONDS", type=NumberRange(0.5, 3600), default=15.0, show_default=True,
              help="After how long the VMs of a silent host are unknown.")  # fmt: skip
@click.option("--state-dir", metavar="FOLDER", type=click.Path(path_type=Path), default=None,
              help="Keep everything here for the next time.  [default: it ends with this process]")  # fmt: skip
def up(listen: str, hosts: int, size: str, silent_after: float, state_dir: Path | None) -> None:
    """Run a control plane and a fleet of fake hosts, and print how to use them.

    Everything is on this machine: an embedded database, agents whose VMs are only books, the dashboard.
    """
    from hostler.cli.control.extras import needs
    from hostler.config import prepare_kernel_cache

    cache = prepare_kernel_cache("control")  # before anything imports the engine
    with needs("all", "dev up"):
        import uvloop

        from hostler.cli.control.dev_town import run_town
        from hostler.cli.control.serving import COMPILING
        from hostler.control.warming import leave

    if cache.note:
        note(cache.note)
    if not cache.is_warm:
        note(COMPILING, label="")

    def told(url: str, key_file: Path) -> None:
        cache.mark_complete()
        _tell(url, key_file)

    def run(folder: Path) -> None:
        town = run_town(
            folder, listen, hosts, size, silent_after, dict(os.environ), is_compiled=cache.is_warm, told=told
        )
        uvloop.run(town)

    if state_dir is not None:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        run(state_dir.absolute())
    else:
        with TemporaryDirectory(prefix="hostler-dev-") as folder:
            run(Path(folder))
    leave()


def _tell(url: str, key_file: Path) -> None:
    say(
        f"""The control plane is up. The dashboard: {url}/
Log in with the key in {key_file}. In another shell:

  export HOSTLER_SERVER={url} HOSTLER_KEY_FILE={key_file}
  hostler host list
  hostler vm create web --count 3 --cpu 2 --memory 4Gi --wait
  hostler vm list
  hostler vm explain web-0

Ctrl-C ends it."""
    )
