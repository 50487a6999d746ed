"""From a plugin's folder to a model that can be called: draft, live, retired."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from django.db import transaction
from django.utils import timezone

from foldline.catalog.alternatives import shelf_kept
from foldline.catalog.fingerprint import digest
from foldline.catalog.models import Model, Revision
from foldline.catalog.rules import SETTINGS, problems_of, settings_problems
from foldline.catalog.schemas import InputSchema, SchemaRefused
from foldline.catalog.selectors import live_models_kept
from foldline.errors import RevisionNotPublishable
from foldline.tenants.models import User
from model_plugins.manifest import Manifest
from model_plugins.registry import Discovery

State = Revision.State


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one plugin folder."""

    name: str
    outcome: Literal["drafted", "unchanged", "refused"]
    revision: int | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class SyncReport:
    outcomes: tuple[Outcome, ...]

    @property
    def refused(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.outcome == "refused")


def sync(discovery: Discovery) -> SyncReport:
    """Make a draft of every plugin that is new or has changed; nothing goes live by itself."""
    refused = [
        Outcome(name=refusal.folder.name, outcome="refused", reason=refusal.reason)
        for refusal in discovery.refused
    ]
    return SyncReport(outcomes=(*map(_sync_one, discovery.found), *refused))


def publish(revision: Revision, *, by: User | None) -> None:
    """Set the newest revision of a model live; the one before it is retired with the same commit.

    Raises RevisionNotPublishable with the reason.
    """
    problems = problems_of(revision)
    if problems:
        told = " ".join(f"{setting}: {problem}" for setting, problem in problems.items())
        raise RevisionNotPublishable(told)
    now = timezone.now()
    with transaction.atomic():
        model = Model.objects.select_for_update().get(pk=revision.model_id)
        if model.revisions.filter(number__gt=revision.number).exists():
            raise RevisionNotPublishable(
                f"The plugin of {revision} has changed since; only its newest revision can go live."
            )
        mine = Revision.objects.filter(pk=revision.pk).exclude(state=State.LIVE)
        model.revisions.filter(state=State.LIVE).exclude(pk=revision.pk).update(
            state=State.RETIRED, retired_at=now
        )
        if not mine.update(state=State.LIVE, published_at=now, published_by=by, retired_at=None):
            raise RevisionNotPublishable(f"{revision} is live already.")
        transaction.on_commit(forget)


def retire(revision: Revision) -> bool:
    """Take a live revision out of service; False when it was not live.

    Its waiting jobs are still finished.
    """
    retired = Revision.objects.filter(pk=revision.pk, state=State.LIVE).update(
        state=State.RETIRED, retired_at=timezone.now()
    )
    transaction.on_commit(forget)
    return bool(retired)


def forget() -> None:
    """Have what this process knows of models read again."""
    live_models_kept.clear()
    shelf_kept.clear()


def _sync_one(manifest: Manifest) -> Outcome:
    reason = _refusal(manifest)
    if reason:
        return Outcome(name=manifest.name, outcome="refused", reason=reason)
    with transaction.atomic():
        model, _ = Model.objects.get_or_create(name=manifest.name)
        Model.objects.select_for_update().get(pk=model.pk)
        newest = model.revisions.order_by("-number").first()
        if newest is not None and newest.digest == manifest.digest:
            # The same content may have moved to another place.
            Revision.objects.filter(pk=newest.pk).update(folder=str(manifest.folder))
            return Outcome(name=manifest.name, outcome="unchanged", revision=newest.number)
        draft = _draft(model, manifest, number=newest.number + 1 if newest else 1)
        return Outcome(name=manifest.name, outcome="drafted", revision=draft.number)


def _refusal(manifest: Manifest) -> str:
    """Why a readable manifest cannot become a model; empty when it can."""
    problems = settings_problems({name: getattr(manifest, name) for name in SETTINGS})
    if problems:
        return " ".join(f"{setting}: {problem}" for setting, problem in problems.items())
    try:
        InputSchema(manifest.output_schema)
        schema = InputSchema(manifest.input_schema)
    except SchemaRefused as error:
        return str(error)
    for number, example in enumerate(manifest.input_schema["examples"], start=1):
        # Once more with the defaults filled in: a default may be what the schema refuses.
        findings = schema.findings(example) or schema.findings(schema.normalized(example))
        if findings:
            first = findings[0]
            return (
                f"The input schema refuses its own example {number} at {first['pointer']}"
                f" ({first['code']}: {first['got']!r}, expected {first['expected']})."
            )
    return ""


def _draft(model: Model, manifest: Manifest, *, number: int) -> Revision:
    weights = [asdict(weight) for weight in manifest.weights]
    return Revision.objects.create(
        model=model,
        number=number,
        folder=str(manifest.folder),
        digest=manifest.digest,
        manifest={
            "entry": manifest.entry,
            "version": manifest.version,
            "licence": manifest.licence,
            "family": manifest.family,
            "weights": weights,
        },
        input_schema=manifest.input_schema,
        output_schema=manifest.output_schema,
        weights_digest=digest([[weight["name"], weight["sha256"]] for weight in weights]),
        runtime=manifest.runtime,
        **{name: getattr(manifest, name) for name in SETTINGS},
    )
