"""The command line `foldline`."""

from __future__ import annotations

import io
import sys


def main() -> None:
    try:
        from foldline.client.cli.commands import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("httpx", "rich", "typer"):
            raise
        sys.exit("The command line needs the extra `client`: pip install 'foldline[client]'")
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may know no more than ASCII
        sys.stdout.reconfigure(errors="backslashreplace")
    app(prog_name="foldline")
