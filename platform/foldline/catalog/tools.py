"""Models as tools: what an agent's framework is told of each.

The words name no number that changes from call to call: a list of tools that changes
empties the prompt caches of everyone who sends it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from foldline.catalog.models import Lane, Revision
from foldline.catalog.selectors import LiveModel
from foldline.catalog.tool_schemas import OPTIONS, answer_schema, with_options

MOST_DESCRIPTION = 1024
"""Characters; the least that any of the vendors is known to take."""

_STEPS = (1, 2, 3, 5, 10)
_LANES = {
    Lane.ONLINE: "It answers within seconds to minutes",
    Lane.LONG: "It takes minutes, up to half an hour",
    Lane.BULK: "It takes half an hour or longer",
}
_SEEDS = {
    Revision.SeedDefault.FIXED: "Seed fixed: equal calls give the same answer and are computed"
    f" once; another `{OPTIONS}.seed` draws another.",
    Revision.SeedDefault.RANDOM: "Seed random: 30 equal calls give 30 different designs unless you"
    f" give `{OPTIONS}.seed`; with one, equal calls give the same answer.",
}


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What calls of a model took, in seconds. `load_s`: until a first worker is loaded."""

    run_p50_s: float
    run_p90_s: float
    load_s: float


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool in nobody's words yet. `examples` fit the input schema."""

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    examples: Sequence[Mapping[str, Any]] = ()
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


def model_tools(models: Iterable[LiveModel], paces: Mapping[UUID, Pace]) -> list[Tool]:
    """A tool for each model. `paces` by revision, of those that have run."""
    return [tool_of(model, pace=paces.get(model.revision_id)) for model in models]


def tool_of(model: LiveModel, *, pace: Pace | None) -> Tool:
    examples = model.input_schema.get("examples", [])
    return Tool(
        name=model.name,
        title=model.title,
        description=_description(model, pace),
        input_schema=with_options(model.input_schema),
        output_schema=answer_schema(model.output_schema),
        examples=[example for example in examples if not model.compiled.findings(example)],
        # A call costs, but changes nothing that was there; drawn anew, it is not the same twice.
        idempotent=model.seed_default == Revision.SeedDefault.FIXED,
    )


def _description(model: LiveModel, pace: Pace | None) -> str:
    """What it does as its reviewer wrote it, then what the platform knows of it."""
    seed = _SEEDS[Revision.SeedDefault(model.seed_default)]
    facts = f"{_time(model, pace)} {seed} Lane {model.lane}; a call runs {_at_most(model)} at most."
    does = " ".join(model.description.split())
    room = MOST_DESCRIPTION - len(facts) - 1
    if len(does) > room:
        does = does[: room - 1].rpartition(" ")[0] + "…"
    return f"{does} {facts}"


def _time(model: LiveModel, pace: Pace | None) -> str:
    if pace is None:
        return f"{_LANES[Lane(model.lane)]}; a first call also waits until the model is loaded."
    usual, late, load = (in_words(s) for s in (pace.run_p50_s, pace.run_p90_s, pace.load_s))
    slow = f", 9 of 10 within {late}" if late != usual else ""
    return f"Takes about {usual}{slow}; while no worker is loaded, about {load} more."


def _at_most(model: LiveModel) -> str:
    seconds = model.run_timeout_s
    return f"{seconds} s" if seconds % 60 or seconds < 120 else f"{seconds // 60} min"


def in_words(seconds: float) -> str:
    """Rounded up to 1, 2, 3, 5 or 10 of a unit and its tens: such as "20 s" or "3 min"."""
    for unit, name in ((1, "s"), (60, "min")):
        if seconds <= 50 * unit:
            return f"{_rounded(seconds / unit)} {name}"
    return f"{_rounded(seconds / 3600)} h"


def _rounded(number: float) -> int:
    tens = int(10 ** math.floor(math.log10(max(number, 1))))
    return next(step * tens for step in _STEPS if step * tens >= number)
