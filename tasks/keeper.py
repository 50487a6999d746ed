"""Stands between a plugin host and its plugin, so that nothing of the plugin outlives it.

Run as `python -S -I keeper.py LIFELINE -- COMMAND...`; its own process id is appended to the
command. LIFELINE is the reading end of a pipe whose other end only the host holds:

    byte T        SIGTERM to the plugin's process group
    end of file   the host wants an end, or is gone: SIGKILL to everything

The keeper is a subreaper: a descendant that loses its parent becomes its child, also one in a
session of its own. It leaves only when no descendant is left, in the way the plugin left:
same exit code, same signal. It needs neither root nor an init process, and has no
parent-death signal itself, because it must outlive its host by a moment. The standard
library only, and no site packages: it starts in a few milliseconds and holds no secrets.

What it cannot prevent: a plugin of the same user that kills its keeper, after it has taken
back its own parent-death signal, lives on. A container, or a user of its own, ends that too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
LOOKS_INTO_OTHERS = (19, 21, 38)  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON
PLUGIN_DIES_FIRST = "500"
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def main(arguments: Sequence[str]) -> NoReturn:
    lifeline, command = int(arguments[0]), [*arguments[2:], str(os.getpid())]
    os.set_inheritable(lifeline, False)  # noqa: FBT003  # takes no keyword
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold a caller's inputs
    _confine()
    plugin = os.fork()
    if plugin == 0:
        _become(command)
    _close_inherited(but=lifeline)
    _watch(lifeline, plugin)
    _leave_like(_end_everything(plugin))


def _confine() -> None:
    """Adopt orphans; let no descendant gain rights that would put it out of reach."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Only root has them to lose: each opens the environment of an undumpable host.
    for capability in LOOKS_INTO_OTHERS:
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def _become(command: list[str]) -> NoReturn:
    try:
        for number in IGNORED:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        with contextlib.suppress(OSError):
            _write("/proc/self/oom_score_adj", PLUGIN_DIES_FIRST)
        os.execv(command[0], command)  # noqa: S606  # no shell is the point
    except BaseException as error:
        os.write(2, f"cannot start {command[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def _close_inherited(*, but: int) -> None:
    # The plugin's pipes: held here, they would never end.
    os.closerange(3, but)
    os.closerange(but + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _watch(lifeline: int, plugin: int) -> None:
    """Return when the plugin has ended or the host wants it to."""
    ended = os.pidfd_open(plugin)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN | select.POLLHUP)
    poll.register(ended, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if ended in ready or os.read(lifeline, 1) != b"T":
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(plugin, signal.SIGTERM)


def _end_everything(plugin: int) -> int:
    """Kill and reap until no descendant is left; the plugin's wait status."""
    status = 0
    with contextlib.suppress(ProcessLookupError):
        os.killpg(plugin, signal.SIGKILL)
    while True:
        for child in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            reaped, raw = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if reaped == plugin:
            status = raw


def _children() -> list[int]:
    me = str(os.getpid())
    with contextlib.suppress(FileNotFoundError):  # needs CONFIG_PROC_CHILDREN
        return [int(child) for child in _read(f"/proc/self/task/{me}/children").split()]
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if _read(f"/proc/{process}/stat").rpartition(")")[2].split()[1] == me:
                found.append(int(process))
    return found


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _leave_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError):  # SIGKILL has no handler to reset
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(sys.argv[1:])
