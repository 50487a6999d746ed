"""`python -m tasks.worker MODEL[@rN] [--once]`: one worker process for exactly one revision.

With `--once` it leaves after the first job, or when none waits that it could take. Exit codes: 0
drained; 75 the model could not be loaded (EX_TEMPFAIL); 78 there is nothing to serve here, or its
runtime or folder is not as reviewed (EX_CONFIG).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "foldline.settings")
django.setup()

from django.conf import settings  # noqa: E402 - Django is set up first

from foldline.environment import ROOT  # noqa: E402
from foldline.fleet import services as fleet  # noqa: E402
from foldline.fleet.runtimes import interpreter  # noqa: E402
from foldline.fleet.services import Assignment, NoRevision  # noqa: E402
from foldline.ids import uuid7  # noqa: E402
from model_plugins.manifest import ManifestError, read_manifest  # noqa: E402
from tasks.cards import WrongShare, held_share, visible_card  # noqa: E402
from tasks.host import PluginSpec, make_undumpable  # noqa: E402
from tasks.launch import EX_CONFIG, Launch  # noqa: E402


class NothingToServe(Exception):
    """Why this process cannot serve; its text is a sentence for whoever started it."""


def main(arguments: list[str]) -> int:
    """Serve the revision that `arguments` name, until told to stop; gives the exit code."""
    make_undumpable()
    # Until Celery's own handler stands: leave through the `finally`s, not in mid-step.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    once = "--once" in arguments[1:]
    try:
        share = held_share()
        assignment = _assignment([each for each in arguments if each != "--once"])
        spec = _spec(assignment)
    except (NothingToServe, WrongShare) as reason:
        print(f"worker: {reason}", file=sys.stderr)  # noqa: T201 - the process's last word
        return EX_CONFIG
    name = f"{assignment.model}-r{assignment.number}-{uuid7().hex[-8:]}@{socket.gethostname()}"
    try:
        return Launch(assignment, spec, name=name, share=share, once=once).run()
    finally:
        shutil.rmtree(spec.scratch, ignore_errors=True)


def _assignment(arguments: list[str]) -> Assignment:
    try:
        model, number = fleet.named(" ".join(arguments))
    except NoRevision as error:
        raise NothingToServe(
            "say which model: python -m tasks.worker MODEL, or MODEL@r2 (and --once)."
        ) from error
    try:
        return fleet.assignment(model, number=number)
    except NoRevision as error:
        raise NothingToServe(f"{arguments[0]} has no live revision. {error.__doc__}") from error


def _spec(assignment: Assignment) -> PluginSpec:
    """The plugin to run, provided that its folder is still what was reviewed."""
    try:
        manifest = read_manifest(assignment.folder)
    except ManifestError as error:
        raise NothingToServe(str(error)) from error
    if manifest.digest != assignment.digest:
        raise NothingToServe(
            f"{assignment.folder} has changed since r{assignment.number} was reviewed."
            " Run `manage.py sync_models` and set the new revision live in the admin."
        )
    card = visible_card()
    scratch = settings.HOME / "scratch" / uuid7().hex
    scratch.mkdir(parents=True)
    return PluginSpec(
        name=manifest.name,
        folder=manifest.folder,
        entry=manifest.entry,
        python=interpreter(assignment.runtime),
        threads=assignment.threads,
        device=card.device if card else "cpu",
        weights=tuple(vars(weight) for weight in manifest.weights),
        load_timeout_s=assignment.load_timeout_s,
        import_root=ROOT,
        scratch=scratch,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
