"""`python -m scaler`: decides how many workers each model has, and has them come and go.

Where they are is FOLDLINE_SCALER_TARGET: `local` (processes of this machine), `kubernetes`, or
`advise` (also there, and somebody else scales by what is decided).
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "foldline.settings")
django.setup()

from django.conf import settings  # noqa: E402 - Django is set up first

from foldline.stopping import stop_event  # noqa: E402
from scaler.wiring import CannotBegin, loop  # noqa: E402


def main() -> int:
    stop = stop_event()
    with ExitStack() as closing:
        try:
            rounds = loop(settings.SCALER_TARGET, closing=closing)
        except CannotBegin as error:
            print(f"scaler: {error}", file=sys.stderr)  # noqa: T201 - the process's last word
            return 78
        rounds.run(stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
