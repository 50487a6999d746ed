"""Where each waiting job stands: a packed table, sorted by id, read without parsing it.

A place rises only with a reason, and the reason stays until the job stands as far in front
as it ever did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from struct import Struct
from uuid import UUID

from foldline.scheduling.fairness import Head
from foldline.scheduling.walk import Place as InTurn


class Reason(StrEnum):
    """Why a place rose, or a start was put off: jobs of others went ahead, one that is tried
    again came back, or there are fewer workers."""

    FAIR_SHARE = "fair_share"
    RETRY = "retry"
    WORKER_LOST = "worker_lost"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """`position` 1 is next, None: held by a limit. `lowest`: the smallest position so far."""

    position: int | None
    ahead_gpu_s: float | None
    lowest: int
    reason: Reason | None


_ROW = Struct(">16sIfIB")
_REASONS = (None, Reason.FAIR_SHARE, Reason.RETRY)
_CODES = {reason: code for code, reason in enumerate(_REASONS)}
_NEVER = 2**32 - 1  # the lowest position of one that had none yet


class Places:
    """The table as it is stored; looking one job up takes a few microseconds."""

    def __init__(self, packed: bytes = b"") -> None:
        self.packed = packed

    def __len__(self) -> int:
        return len(self.packed) // _ROW.size

    def get(self, job_id: UUID) -> Place | None:
        """None: the job did not wait when the line was walked."""
        packed, size, wanted = self.packed, _ROW.size, job_id.bytes
        row = bisect_left(
            range(len(self)), wanted, key=lambda row: packed[row * size : row * size + 16]
        )
        if row == len(self) or packed[row * size : row * size + 16] != wanted:
            return None
        _, position, ahead, lowest, code = _ROW.unpack_from(packed, row * size)
        if not position:
            return Place(position=None, ahead_gpu_s=None, lowest=lowest, reason=None)
        return Place(position=position, ahead_gpu_s=ahead, lowest=lowest, reason=_REASONS[code])

    def rows(self) -> Mapping[bytes, tuple[int, int, int]]:
        """By job: position, lowest position, code of the reason."""
        return {
            job_id: (position, lowest, code)
            for job_id, position, _, lowest, code in _ROW.iter_unpack(self.packed)
        }


@dataclass(frozen=True, kw_only=True)
class Arranged:
    """The places of a line, and the jobs in it that no walk has seen before."""

    places: Places
    newcomers: Sequence[Head]


def arranged(
    line: Iterable[InTurn],
    *,
    held: Iterable[bytes],
    share: float,
    before: Mapping[bytes, tuple[int, int, int]],
    told: Callable[[Head], int | None],
) -> Arranged:
    """The places of a line in its turn, given those of the walk before (`Places.rows`).

    `held`: ids that a limit keeps out of turn. `share`: of a card that a worker holds. `told`:
    the position that the caller of a new job was told at submit.
    """
    packed, newcomers, risen = [], [], Reason.FAIR_SHARE
    for position, place in enumerate(line, 1):
        head = place.head
        job_id = head.job_id.bytes
        old = before.get(job_id)
        lowest, code = position, 0
        if old is not None:
            if position > old[1]:
                lowest, code = _moved(old, position, risen=risen)
        elif head.attempt:
            risen = Reason.RETRY
        else:
            newcomers.append(head)
            lowest = min(told(head) or position, position)
            code = _CODES[risen] if lowest < position else 0
        packed.append(_ROW.pack(job_id, position, place.ahead_s * share, lowest, code))
    for job_id in held:
        old = before.get(job_id)
        packed.append(_ROW.pack(job_id, 0, 0.0, old[1] if old else _NEVER, 0))
    packed.sort()
    return Arranged(places=Places(b"".join(packed)), newcomers=newcomers)


def _moved(old: tuple[int, int, int], position: int, *, risen: Reason) -> tuple[int, int]:
    """Lowest position and reason of a job that stood further in front before."""
    last, lowest, code = old
    return lowest, _CODES[risen] if position > last or not last else code
