"""How long a job of a model computes, by the size of its input. Pure; JSON-ready.

Medians tell what one job takes, fast means what many jobs take together: the median of a skewed
time is below what it adds to a sum. What a bucket of sizes does not know yet it borrows from the
model. All times are seconds on one worker, counted from the start of an attempt to its success.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist, median
from typing import Any

WINDOW = 40
"""Times a median is taken of."""

EWMA = 0.1
MODEL_EWMA = 0.01
"""Slower: one burst of equal sizes must not pass for what the model usually does."""

BORROWED = 3
"""As many observations as the model counts for in a bucket."""

LEAST_S = 0.001
"""As times are kept. A job's part of a call that many share may be less."""
LEAST_SIGMA = 0.05
FIRST_SIGMA = 0.5
_NORMAL = NormalDist()


def bucket(size: int) -> int:
    """Half-octaves of the input's size: 0, then two buckets each time it doubles."""
    return round(2 * math.log2(size)) + 1 if size > 0 else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    """What was seen of one bucket, or of the model as a whole."""

    count: int = 0
    mean_s: float = 0.0
    spread: float = 0.0  # mean square of log(actual / median before)
    recent: tuple[float, ...] = ()

    def observe(self, seconds: float, *, off: float | None, ewma: float = EWMA) -> Track:
        rate = max(ewma, 1 / (self.count + 1))
        square = FIRST_SIGMA**2 if off is None else off**2
        return Track(
            count=self.count + 1,
            mean_s=self.mean_s + rate * (seconds - self.mean_s),
            spread=self.spread + max(EWMA / 2, 1 / (self.count + 1)) * (square - self.spread),
            recent=(*self.recent[1 - WINDOW :], round(seconds, 3)),
        )

    def as_json(self) -> list[Any]:
        return [self.count, round(self.mean_s, 4), round(self.spread, 5), list(self.recent)]

    @classmethod
    def from_json(cls, value: Any) -> Track:
        count, mean_s, spread, recent = value
        return cls(count=count, mean_s=mean_s, spread=spread, recent=tuple(recent))


@dataclass(frozen=True, kw_only=True)
class ServiceTimes:
    """What one model's jobs took. `observe` gives a new one; an empty one knows nothing."""

    model: Track = Track()
    buckets: Mapping[int, Track] = field(default_factory=dict)

    def observe(self, seconds: float, *, size: int) -> ServiceTimes:
        """One more succeeded attempt; a time that is not positive says nothing."""
        if not (seconds > 0 and math.isfinite(seconds)):
            return self
        seconds = max(seconds, LEAST_S)
        expected = self.median_s(size)
        off = None if expected is None else math.log(seconds / expected)
        key = bucket(size)
        mine = self.buckets.get(key, Track()).observe(seconds, off=off)
        return ServiceTimes(
            model=self.model.observe(seconds, off=off, ewma=MODEL_EWMA),
            buckets={**self.buckets, key: mine},
        )

    def median_s(self, size: int) -> float | None:
        """What one job of this size takes in the middle; None when nothing was ever seen."""
        return self._borrow(size, lambda track: median(track.recent))

    def mean_s(self, size: int) -> float | None:
        """What a job of this size adds to a sum; None when nothing was ever seen."""
        return self._borrow(size, lambda track: track.mean_s)

    def sigma(self, size: int) -> float:
        """Standard deviation of log(actual / median), at least 0.05."""
        spread = self._borrow(size, lambda track: max(track.spread, LEAST_SIGMA**2))
        return FIRST_SIGMA if spread is None else math.sqrt(spread)

    @property
    def spread(self) -> float:
        """`sigma` over all sizes."""
        return math.sqrt(self.model.spread) if self.model.count else FIRST_SIGMA

    def _borrow(self, size: int, value: Callable[[Track], float]) -> float | None:
        """A weighted geometric mean of what the bucket and what the model say."""
        if not self.model.count:
            return None
        mine, whole = self.buckets.get(bucket(size)), value(self.model)
        if mine is None:
            return whole
        seen = min(mine.count, WINDOW)
        logs = seen * math.log(value(mine)) + BORROWED * math.log(whole)
        return math.exp(logs / (seen + BORROWED))

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model.as_json(),
            "buckets": {str(key): track.as_json() for key, track in self.buckets.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ServiceTimes:
        """What `as_json` wrote; {} knows nothing."""
        if not value:
            return cls()
        buckets = value["buckets"].items()
        return cls(
            model=Track.from_json(value["model"]),
            buckets={int(key): Track.from_json(track) for key, track in buckets},
        )


def remainder_s(share: float, *, elapsed_s: float, median_s: float, sigma: float) -> float:
    """What is left of a lognormal time of which `elapsed_s` has passed, at this quantile."""
    least = 0.02 * median_s
    if elapsed_s <= 0:
        return max(median_s * math.exp(sigma * _NORMAL.inv_cdf(share)), least)
    passed = _NORMAL.cdf((math.log(elapsed_s) - math.log(median_s)) / sigma)
    quantile = min(passed + share * (1 - passed), 1 - 1e-9)
    return max(median_s * math.exp(sigma * _NORMAL.inv_cdf(quantile)) - elapsed_s, least)
