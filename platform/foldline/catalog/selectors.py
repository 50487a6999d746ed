"""What can be called right now. The gateway validates with this and imports no plugin."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from foldline.catalog.fingerprint import fingerprint
from foldline.catalog.models import Model, Revision
from foldline.catalog.schemas import InputSchema
from foldline.errors import ModelNotFound, ModelRetired
from foldline.fresh import Fresh

NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")


@dataclass(frozen=True, kw_only=True)
class LiveModel:
    """A model's live revision, with its input schema compiled."""

    name: str
    model_id: UUID
    revision_id: UUID
    number: int
    title: str
    description: str
    lane: str
    family: str
    licence: str
    version: str
    seed_default: str
    run_timeout_s: int
    price: Decimal
    """Of one GPU-second, in `settings.CURRENCY`."""
    weights_digest: str
    published_at: datetime | None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    compiled: InputSchema
    folder: str
    entry: str
    preflight: bool
    """Whether its plugin, in `folder`, judges inputs before they become a job."""

    @property
    def revision(self) -> str:
        return f"{self.name}@r{self.number}"

    def fingerprint(
        self,
        inputs: dict[str, Any],
        files: Iterable[tuple[str, UUID, str]],
        *,
        tenant_id: UUID,
        seed: int,
    ) -> str:
        """What calls are equal by. `inputs` are normalized; of the `files` they name, (pointer,
        id, SHA-256), the content counts."""
        hashes = {str(artifact): sha256 for _, artifact, sha256 in files}
        return fingerprint(
            tenant_id=tenant_id,
            revision_id=self.revision_id,
            weights_digest=self.weights_digest,
            inputs=self.compiled.with_artifacts(inputs, hashes),
            seed=seed,
        )


live_models_kept: Fresh[str, LiveModel] = Fresh()
_compiled: dict[UUID, InputSchema] = {}


def live_model(name: str) -> LiveModel:
    """The live model of this name, at most two seconds old. Raises ModelNotFound, ModelRetired."""
    return live_models_kept.get(name, lambda: _look_up(name))


def live_models() -> list[LiveModel]:
    """Every model that can be called, by name."""
    live = Revision.objects.filter(state=Revision.State.LIVE).select_related("model")
    return [_of(revision) for revision in live.order_by("model__name")]


def names_of_models(model_ids: Collection[UUID]) -> Mapping[UUID, str]:
    """The names of models, live or not. No query when none is asked for."""
    if not model_ids:
        return {}
    return dict(Model.objects.filter(id__in=list(model_ids)).values_list("id", "name"))


def _look_up(name: str) -> LiveModel:
    if not NAME.fullmatch(name):
        raise ModelNotFound
    revisions = Revision.objects.filter(model__name=name).select_related("model")
    live = revisions.filter(state=Revision.State.LIVE).first()
    if live is not None:
        return _of(live)
    if revisions.filter(state=Revision.State.RETIRED).exists():
        raise ModelRetired
    raise ModelNotFound


def _of(revision: Revision) -> LiveModel:
    return LiveModel(
        name=revision.model.name,
        model_id=revision.model_id,
        revision_id=revision.pk,
        price=revision.model.price,
        compiled=_compile(revision),
        preflight=bool(revision.manifest.get("preflight")),
        **{name: getattr(revision, name) for name in _COLUMNS},
        **{name: revision.manifest.get(name, "") for name in _OF_MANIFEST},
    )


_OF_MANIFEST = ("family", "licence", "version", "entry")
_COLUMNS = (
    "number",
    "title",
    "description",
    "lane",
    "seed_default",
    "run_timeout_s",
    "weights_digest",
    "published_at",
    "input_schema",
    "output_schema",
    "folder",
)


def _compile(revision: Revision) -> InputSchema:
    """Once per revision: its schema never changes."""
    compiled = _compiled.get(revision.pk)
    if compiled is None:
        compiled = _compiled[revision.pk] = InputSchema(revision.input_schema)
    return compiled
