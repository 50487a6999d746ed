"""A job's warnings: those about its call (`of: call`), known when it was accepted, and those of the
run that answered it, which equal calls share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Warning_ = Mapping[str, Any]


def combined(of_call: Sequence[Warning_], run: Sequence[Warning_]) -> list[Warning_]:
    """What is told of an answered job, each thing once. Of a run only what is about the run."""
    of_run = [warning for warning in run if warning.get("of") != "call"]
    said = {(warning["code"], warning["message"]) for warning in of_run}
    return [*(w for w in of_call if (w["code"], w["message"]) not in said), *of_run]
