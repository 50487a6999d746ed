"""How a model's workers stand beside what is wanted of them, as the admin shows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import NodeWeights, ScalingDecision
from foldline.fleet.peaks import Peak, peaks_of
from foldline.fleet.policies import history, is_fresh, latest_decisions
from foldline.fleet.services import workers_by_state
from foldline.fleet.starts import Starts, starts_of
from foldline.fleet.weights_ahead import weights_of
from foldline.forecasts.capacity import crew_of
from foldline.scheduling.eta import ColdStart

SHOWN = 10
GIB = 1024**3


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Of one revision. `decision` is the newest, however old; None: there never was one."""

    revision: Revision
    workers: dict[str, int]
    decision: ScalingDecision | None
    now: datetime

    @property
    def actual(self) -> int:
        return sum(self.workers.values())

    @property
    def stale(self) -> bool:
        """Nobody stands by the decision any more: the scaler has stopped, or cannot write."""
        return self.decision is not None and not is_fresh(self.decision, now=self.now)

    @property
    def decided(self) -> ScalingDecision | None:
        return None if self.stale else self.decision

    @property
    def counted(self) -> dict[str, int | str]:
        """What the scaler says of numbers; "?" is not known."""
        names = ("desired", "waiting", "running")
        said = {name: getattr(self.decided, name, None) for name in names}
        return {name: "?" if number is None else number for name, number in said.items()}

    @property
    def zero_at(self) -> datetime | None:
        """When no worker is left if no job comes; None: not known, or not while it stands so."""
        if self.decided is None or self.decided.zero_in_s is None or not self.actual:
            return None
        return max(self.now, self.decided.as_of + timedelta(seconds=self.decided.zero_in_s))

    @property
    def to_zero(self) -> str:
        """The same in words."""
        if self.decided is None:
            return "not known: no scaler says so now"
        if not self.actual:
            return "it has no worker"
        if self.zero_at is None:
            return "not while it has work or a minimum"
        minutes = (self.zero_at - self.now).total_seconds() / 60
        return f"{self.zero_at:%H:%M:%S} UTC, in {minutes:.0f} min, if no job comes"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Of one revision: its cold start, None until a worker has loaded, in phases, too, its memory,
    and its weights on the nodes."""

    cold: ColdStart | None
    peak: Peak
    starts: Sequence[Starts] = ()
    weights: Sequence[NodeWeights] = ()

    @property
    def peak_gib(self) -> float:
        return self.peak.gpu_bytes / GIB

    @property
    def card_gib(self) -> float:
        return self.peak.card_bytes / GIB


@dataclass(frozen=True, kw_only=True)
class Row:
    """All of one revision that the page shows."""

    standing: Standing
    measured: Measured
    history: Sequence[ScalingDecision]

    @property
    def piece_gib(self) -> float:
        decision = self.standing.decision
        return decision.piece.get("bytes", 0) / GIB if decision else 0.0


def standings_of(model_ids: Collection[UUID]) -> Mapping[UUID, Sequence[Standing]]:
    """By model: its live revision first, then those before it that still have workers."""
    revisions = {each.pk: each for each in _revisions(model_ids)}
    workers, decisions = workers_by_state(list(revisions)), latest_decisions(list(revisions))
    now = database_now()
    found: dict[UUID, list[Standing]] = {model_id: [] for model_id in model_ids}
    for key, revision in revisions.items():
        if revision.state == Revision.State.LIVE or workers[key]:
            found[revision.model_id].append(
                Standing(
                    revision=revision,
                    workers=dict(workers[key]),
                    decision=decisions.get(key),
                    now=now,
                )
            )
    return found


def rows_of(model_id: UUID) -> Sequence[Row]:
    """The same of one model, with what was measured and decided before."""
    standings = standings_of([model_id])[model_id]
    peaks = peaks_of([each.revision.pk for each in standings])
    return [
        Row(
            standing=each,
            measured=_measured(each.revision, peaks[each.revision.pk]),
            history=history(each.revision.pk, limit=SHOWN),
        )
        for each in standings
    ]


def _revisions(model_ids: Collection[UUID]) -> Sequence[Revision]:
    theirs = Revision.objects.filter(model_id__in=model_ids).exclude(state=Revision.State.DRAFT)
    newest_first = theirs.select_related("model").order_by("-number")
    return sorted(newest_first, key=lambda each: each.state != Revision.State.LIVE)


def _measured(revision: Revision, peak: Peak) -> Measured:
    crew = crew_of(revision)
    starts = starts_of(crew.workers)
    return Measured(
        cold=crew.cold_start(load_timeout_s=revision.load_timeout_s) if starts else None,
        peak=peak,
        starts=starts,
        weights=weights_of(revision.pk),
    )
