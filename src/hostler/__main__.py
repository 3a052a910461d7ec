"""``python -m hostler``: the same as the command ``hostler``."""

from __future__ import annotations

import sys

from hostler.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
