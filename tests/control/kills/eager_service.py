"""``hostler serve`` with a checkpoint after every few entries of the log, as ``python -m`` of this module.

The command saves one after thousands of entries, more than a test writes. Takes the options that ``Service`` gives.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from hostler.config import prepare_kernel_cache

__all__ = ["EAGER"]

EAGER = ("-m", "tests.control.kills.eager_service")


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    for option in ("--database-url", "--listen", "--admin-key-file"):
        parser.add_argument(option, required=True)
    options, _ = parser.parse_known_args()
    prepare_kernel_cache("control")  # before anything imports the engine
    from hostler.control.access.limits import OFF
    from hostler.control.service import ServiceOptions, serve
    from hostler.control.settings import ControlSettings

    how = ServiceOptions(
        settings=ControlSettings(
            listen=options.listen, heartbeat_s=2.0, silent_after_s=600.0, stop_after_s=480.0, checkpoint_every=1
        ),
        database_url=options.database_url,
        is_compiled=True,
        limits=OFF,
        on_admin_key=lambda secret: Path(options.admin_key_file).write_text(secret) and None,
        tell=lambda line: print(line, flush=True),
    )

    async def live() -> None:
        stopping = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        await serve(how, stopping)

    asyncio.run(live())


if __name__ == "__main__":
    main()
