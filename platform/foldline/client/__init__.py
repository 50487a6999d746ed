"""The client of Foldline: submit, wait, fetch, also across crashes of either side.

    from foldline.client import Foldline

    with Foldline("http://127.0.0.1:8000", key) as foldline:
        print(foldline.run("flash_abb", {"heavy": "EVQL...", "light": "DIQM..."}).result)

It knows the REST interface and nothing else of Foldline. Needs the extra `client`.
"""

from __future__ import annotations

from foldline.client.aio import AsyncFoldline
from foldline.client.asks import Call, File
from foldline.client.errors import (
    BadAnswer,
    FoldlineError,
    JobFailed,
    Refused,
    TimedOut,
    Unreachable,
)
from foldline.client.events import Event
from foldline.client.landing import files_in, safe_name
from foldline.client.patience import Patience
from foldline.client.shapes import (
    Artifact,
    Batch,
    BatchItem,
    Estimate,
    Job,
    Model,
    Page,
    Problem,
    Result,
    Usage,
)
from foldline.client.sync import Foldline

__all__ = [
    "Artifact",
    "AsyncFoldline",
    "BadAnswer",
    "Batch",
    "BatchItem",
    "Call",
    "Estimate",
    "Event",
    "File",
    "Foldline",
    "FoldlineError",
    "Job",
    "JobFailed",
    "Model",
    "Page",
    "Patience",
    "Problem",
    "Refused",
    "Result",
    "TimedOut",
    "Unreachable",
    "Usage",
    "files_in",
    "safe_name",
]
