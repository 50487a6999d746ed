"""A call's inputs as its model's plugin understands them, or refuses them, before it is a job."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from foldline.artifacts.storage import copy_to, path_of
from foldline.catalog.preflight import Skipped, Told, judged
from foldline.catalog.selectors import LiveModel
from foldline.errors import InvalidInput, input_finding

MOST_FILE_BYTES = 32 * 1024 * 1024
OF_CALL = "call"

Inputs = dict[str, Any]
Warnings = Sequence[Mapping[str, str]]
Files = Sequence[tuple[str, UUID, str]]
"""(pointer into the inputs, id, SHA-256)."""


_until: ContextVar[float] = ContextVar("until", default=math.inf)


@contextmanager
def in_one_time(seconds: float) -> Iterator[None]:
    """Within the block no plugin is asked after so long: the calls of a request share one thread,
    which others wait for."""
    token = _until.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _until.reset(token)


def preflighted(
    model: LiveModel, inputs: Inputs, files: Files, *, tenant_id: UUID
) -> tuple[Inputs, Warnings]:
    """The inputs tidied up by the plugin, and what was changed.

    Where the plugin cannot be asked the inputs stay as they are, with a warning, and the worker
    checks them. Raises InvalidInput.
    """
    if not model.preflight or settings.PREFLIGHT_S <= 0:
        return inputs, ()
    try:
        if time.monotonic() >= _until.get():
            raise Skipped("the calls before it have taken the time for that")
        with _copies(files, tenant_id=tenant_id) as paths:
            asked = model.compiled.with_artifacts(inputs, paths)
            told = judged(model, asked)
        return _tidied(model, asked, told, paths)
    except Skipped as reason:
        message = f"The inputs are checked when the job starts, and not before: {reason}."
        return inputs, [_warning("preflight_skipped", message)]


def _tidied(
    model: LiveModel, asked: Inputs, told: Told, paths: Mapping[str, str]
) -> tuple[Inputs, Warnings]:
    if told.error is not None:
        raise InvalidInput(told.error.message, errors=[input_finding(told.error.details)])
    answer = told.inputs or {}
    if model.compiled.artifacts(answer) != model.compiled.artifacts(asked):
        raise Skipped("it put other files into the inputs")
    ids = {path: artifact for artifact, path in paths.items()}
    inputs = model.compiled.with_artifacts(answer, ids)
    if model.compiled.findings(inputs) or not _is_json(inputs):
        raise Skipped("it made of the inputs what the model does not take")
    return inputs, [_warning(each.code, each.message) for each in told.warnings]


def _is_json(inputs: Inputs) -> bool:
    try:
        json.dumps(inputs, allow_nan=False)
    except ValueError:
        return False
    return True


def _warning(code: str, message: str) -> Mapping[str, str]:
    return {"code": code, "message": message, "of": OF_CALL}


@contextmanager
def _copies(files: Files, *, tenant_id: UUID) -> Iterator[Mapping[str, str]]:
    """Copies of the files, their paths by id: what a plugin does to one must not reach the store.
    Raises Skipped, Storage."""
    if not files:
        yield {}
        return
    hashes = {str(artifact): sha256 for _, artifact, sha256 in files}
    # One that is not there is told by the copying below.
    places = [path_of(tenant_id, sha256) for sha256 in hashes.values()]
    if sum(place.stat().st_size for place in places if place.exists()) > MOST_FILE_BYTES:
        raise Skipped("its files are too large for that")
    with tempfile.TemporaryDirectory(prefix="foldline-preflight-") as folder:
        paths = {}
        for number, (artifact, sha256) in enumerate(hashes.items()):
            target = Path(folder, str(number))
            copy_to(target, tenant_id=tenant_id, sha256=sha256)
            paths[artifact] = str(target)
        yield paths
