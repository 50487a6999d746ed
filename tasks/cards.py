"""The card this worker computes on, if there is one, and what the worker holds of it.

Needs a driver only to find one: without it there is no card, and nothing to measure.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

HAMI_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
"""In the environment, alone or with a card's number: HAMi bounds this worker's memory."""
SHARE = "FOLDLINE_SHARE"
UUIDS = ("GPU-", "MIG-")


class WrongShare(Exception):
    """FOLDLINE_SHARE is a part of a card, above 0 and at most 1."""


def held_share() -> float:
    """The part of its card that whoever started this worker gave it; all of it when nobody says.
    Raises WrongShare."""
    said = os.environ.get(SHARE) or "1"
    try:
        share = float(said)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise WrongShare(f"{said!r} is no share. {WrongShare.__doc__}")
    return share


@dataclass(frozen=True, kw_only=True)
class Card:
    """What the driver says of the card; `device` is torch's name for it.

    `memory_bytes` is all of it, under HAMi the worker's limit.
    """

    uuid: str
    memory_bytes: int = 0
    device: str = "cuda:0"


def visible_card() -> Card | None:
    """The first card that CUDA shows to this process; None without a driver or card."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handle = _first_handle()
        if handle is None:
            return None
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return Card(uuid=str(pynvml.nvmlDeviceGetUUID(handle)), memory_bytes=int(memory.total))
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _first_handle() -> Any | None:
    """NVML shows all cards of the machine, also those that CUDA is told to leave alone. By
    number both mean the same only in the order of the bus, which plugins are given."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    first = "0" if shown is None else shown.split(",")[0].strip()
    # A device plugin hands out cards by name, and one that has no other is meant by "0".
    if first == "0" and _only_card():
        first = _only_card()
    if first.isdecimal():
        known = int(first) < pynvml.nvmlDeviceGetCount()
        return pynvml.nvmlDeviceGetHandleByIndex(int(first)) if known else None
    if first.startswith(UUIDS):
        return pynvml.nvmlDeviceGetHandleByUUID(first)
    return None


def _only_card() -> str:
    """The one card this container was given, by its UUID; "" when it was not said so."""
    given = os.environ.get("NVIDIA_VISIBLE_DEVICES", "").strip()
    return given if given.startswith(UUIDS) and "," not in given else ""


class Gauge:
    """Reads what this worker and its descendants hold of a card. Raises NVMLError."""

    def __init__(self, card: Card) -> None:
        pynvml.nvmlInit()  # for as long as this process lives: it may take a second
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(card.uuid)
        self._alone = any(name.startswith(HAMI_LIMIT) for name in os.environ)

    def held_bytes(self) -> int:
        """0 where the driver does not show processes, as in some containers."""
        if self._alone:
            # HAMi answers for the container: the whole card's number is the worker's own.
            return int(pynvml.nvmlDeviceGetMemoryInfo(self._handle).used)
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        return sum(each.usedGpuMemory or 0 for each in processes if _is_ours(each.pid))


def _is_ours(pid: int) -> bool:
    """Whether a process is this one or descends from it."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        pid = int(status.rpartition(")")[2].split()[1])
    return False
