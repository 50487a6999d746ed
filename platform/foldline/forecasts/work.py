"""What the scaler takes from a forecast: the work that waits, in fair order, and a cold start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from uuid import UUID

from foldline.forecasts.assumed import JOB_S, cold_start
from foldline.forecasts.outlook import Outlook
from foldline.forecasts.reading import reading_of

MOST = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Of one revision. `outlook` is None while there is no fresh forecast."""

    outlook: Outlook | None
    lane: str

    def of_line(self, count: int) -> Sequence[float]:
        """Seconds of work of each of the first jobs in line, in the order they will run."""
        count = min(count, MOST)
        if self.outlook is None:
            return (JOB_S[self.lane],) * count
        ahead = [self.outlook.work_ahead_s(jobs) for jobs in range(count + 1)]
        return tuple(max(0.0, after - before) for before, after in pairwise(ahead))

    def left_s(self, *, size: int, elapsed_s: float) -> float:
        """Seconds until a job that runs will end; never nothing while it does."""
        usual = JOB_S[self.lane] if self.outlook is None else self.outlook.expected(size).work_s
        return max(usual - elapsed_s, 0.1 * usual)

    def cold_s(self, *, load_timeout_s: int) -> float:
        """What loading the model usually takes."""
        assumed = cold_start(load_timeout_s=load_timeout_s)
        return max(self.outlook.cold_p50_s if self.outlook else assumed.p50_s, 0.1)


def work_of(revision_id: UUID, *, lane: str, now: datetime) -> Work:
    reading = reading_of(revision_id, now=now)
    return Work(outlook=reading.outlook if reading else None, lane=lane)
