"""Which other models may serve a call: those an admin named, then those of the same family."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foldline.catalog.models import Alternative as Named
from foldline.catalog.models import Revision
from foldline.catalog.selectors import LiveModel, live_models
from foldline.fresh import Fresh

MOST_NEAR = 3


@dataclass(frozen=True, kw_only=True)
class Alternative:
    model: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """The whole catalogue at a moment; models are called by name.

    `families` also holds models that are retired. `named`: what admins named, live or not.
    """

    live: Mapping[str, LiveModel]
    families: Mapping[str, str]
    named: Mapping[str, Sequence[Alternative]]


shelf_kept: Fresh[None, Shelf] = Fresh()


def shelf() -> Shelf:
    """At most two seconds old. Never asked for by a plain submit."""
    return shelf_kept.get(None, _read)


def alternatives_of(name: str, *, inputs: Mapping[str, Any] | None = None) -> Sequence[Alternative]:
    """The live models that may stand in for one, the best first; each of them once.

    With `inputs`: only those whose schema takes these very inputs.
    """
    live = shelf().live
    return [
        other
        for other in neighbours(name)
        if other.model in live
        and (inputs is None or not live[other.model].compiled.findings(inputs))
    ]


def neighbours(name: str) -> Iterator[Alternative]:
    """What stands beside a model: those named for it, live or not, and its live family."""
    here = shelf()
    told = {name}
    for other in (*here.named.get(name, ()), *_relatives(name, here)):
        if other.model not in told:
            told.add(other.model)
            yield other


def near(name: str) -> Sequence[Alternative]:
    """Live models whose name is nearly the one that nobody has."""
    found = difflib.get_close_matches(name[:48].lower(), shelf().live, n=MOST_NEAR)
    return [
        Alternative(model=other, why="Its name is nearly the one you called.") for other in found
    ]


def _relatives(name: str, here: Shelf) -> Iterator[Alternative]:
    family = here.families.get(name)
    if family:
        why = f"It takes the same kind of input ({family})."
        yield from (
            Alternative(model=other, why=why)
            for other, model in here.live.items()
            if model.family == family
        )


def _read() -> Shelf:
    published = Revision.objects.exclude(state=Revision.State.DRAFT).order_by("number")
    families = published.values_list("model__name", "manifest")
    named: dict[str, list[Alternative]] = {}
    for row in Named.objects.select_related("model", "instead").order_by("place", "id"):
        other = Alternative(model=row.instead.name, why=row.why or "An administrator named it.")
        named.setdefault(row.model.name, []).append(other)
    return Shelf(
        live={model.name: model for model in live_models()},
        families={name: manifest.get("family", "") for name, manifest in families},
        named=named,
    )
