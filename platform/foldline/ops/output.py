"""What programs print: to a file each, and to the terminal with their names in front."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

MAX_LOG_BYTES = 10 * 1024 * 1024


class Output:
    """Writes lines of programs to `folder`/NAME.log and, with `echo`, to the terminal."""

    def __init__(self, folder: Path, *, echo: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.echo = echo
        self._files: dict[str, RotatingFileHandler] = {}

    def write(self, name: str, line: str) -> None:
        """One line of one program. Called from that program's own thread."""
        if name not in self._files:
            self._files[name] = RotatingFileHandler(
                self.folder / f"{name}.log", maxBytes=MAX_LOG_BYTES, backupCount=1
            )
        self._files[name].emit(logging.makeLogRecord({"msg": line}))
        if self.echo:
            self._print(f"{name:<16}| {line}")

    def say(self, sentence: str) -> None:
        """A sentence of the supervisor's own."""
        self._print(f"{'foldline':<16}| {sentence}" if self.echo else sentence)

    def _print(self, line: str) -> None:
        try:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        except BrokenPipeError:
            self.echo = False  # whoever read along has left; the files go on

    def tail(self, name: str, *, lines: int = 15) -> str:
        """A program's last lines."""
        file = self.folder / f"{name}.log"
        if not file.exists():
            return ""
        return "\n".join(file.read_text(errors="replace").splitlines()[-lines:])
