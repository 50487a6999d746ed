"""`python -m benchmarks.chaos.watched_scaler`: the scaler, whose workers run under the witness."""

from __future__ import annotations

import os
import sys
from functools import partial

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "foldline.settings")
django.setup()

from scaler import wiring  # noqa: E402 - Django is set up first
from scaler.__main__ import main  # noqa: E402
from scaler.targets.base import Revision  # noqa: E402
from scaler.targets.local import LocalTarget  # noqa: E402


def watched(revision: Revision) -> tuple[str, ...]:
    return (sys.executable, "-m", "benchmarks.chaos.witness", "tasks.worker", revision.name)


if __name__ == "__main__":
    wiring.LocalTarget = partial(LocalTarget, command=watched)  # type: ignore[attr-defined,assignment]  # as it is called
    sys.exit(main())
