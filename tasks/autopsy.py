"""Why a plugin process ended: by itself, by a signal, or because memory ran out."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
VMSTAT = Path("/proc/vmstat")
_counter = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Death:
    """`returncode` as subprocess gives it; `ordered` when this side wanted the end."""

    code: str
    message: str
    returncode: int
    ordered: bool


def name_death(returncode: int, *, ordered: bool, out_of_memory: bool) -> Death:
    """The named end of a process; `out_of_memory`: the kernel's counter of OOM kills rose."""
    if returncode == -signal.SIGKILL and out_of_memory and not ordered:
        code, message = "host_oom", "The kernel ended the model's process: memory ran out."
    elif returncode < 0:
        number = -returncode
        code = "plugin_crashed"
        message = f"The model's process was ended by signal {number} ({_signal_name(number)})."
    elif returncode > 0:
        code = "plugin_exited"
        message = f"The model's process ended itself with exit code {returncode}."
    else:
        code = "plugin_no_answer"
        message = "The model's process ended itself with exit code 0 and gave no answer."
    return Death(code=code, message=message, returncode=returncode, ordered=ordered)


def closed_its_pipe(death: Death) -> Death:
    """The name for a process that had to be killed because it would answer no more."""
    return Death(
        code="protocol_broken",
        message="The model's process closed its pipe and went on running.",
        returncode=death.returncode,
        ordered=False,
    )


class OomKills:
    """The kernel's count of OOM kills around a process: of its cgroup, else of the machine.

    The cgroup counts a kill of its members also when the whole machine ran out of memory.
    """

    def __init__(self, pid: int) -> None:
        self._file = next(filter(_counts, _files(pid)), VMSTAT)
        self.mark()

    def mark(self) -> None:
        """Count from here."""
        self._before = _read(self._file)

    def rose(self) -> bool:
        return _read(self._file) > self._before


def _files(pid: int) -> list[Path]:
    """Counter files from the best to the roughest, existing or not.

    Inside a container `/proc/PID/cgroup` may name a path of the host, while the mounted
    hierarchy starts at the container's own group: hence the shorter path each time.
    """
    found = []
    for line in _groups(pid):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = CGROUPS, "memory.events"
        elif "memory" in controllers.split(","):
            root, name = CGROUPS / "memory", "memory.oom_control"
        else:
            continue
        found += [root / path.lstrip("/") / name, root / name]
    return found


def _groups(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _counts(file: Path) -> bool:
    try:
        return _counter.search(file.read_text(encoding="ascii")) is not None
    except OSError:
        return False


def _read(file: Path) -> int:
    try:
        found = _counter.search(file.read_text(encoding="ascii"))
    except OSError:  # the group may be gone with its last process
        return 0
    return int(found[1]) if found else 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"
