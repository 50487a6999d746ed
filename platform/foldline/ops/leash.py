"""Run as a program: `python leash.py PARENT SIGNAL COMMAND...` becomes the command.

The command gets the signal when its parent dies, however that happens, so that nothing
outlives a killed supervisor (Linux; elsewhere an ordered stop must do). The kernel's promise
is made to the thread that starts the process: start it from one that lives as long.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, signal: int, command: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal)
    if os.getppid() != parent:
        sys.exit(1)  # it died before the promise was made
    os.execvp(command[0], command)  # noqa: S606 - a command, not a shell


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
