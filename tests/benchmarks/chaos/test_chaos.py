"""The chaos program itself, short: real processes, real faults, and its two controls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from foldline.environment import ROOT
from tests.postgres_server import programs

pytestmark = pytest.mark.chaos

SHORT = {"FOLDLINE_LEASE_S": "3", "FOLDLINE_HEARTBEAT_S": "0.5", "FOLDLINE_SWEEP_S": "0.5"}


def chaos(*arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit status and figures by name."""
    programs()
    kept = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.chaos", "--print-only", *arguments],
        cwd=ROOT,
        env={**kept, **SHORT},
        stdout=subprocess.PIPE,
    )
    figures = [json.loads(line) for line in told.stdout.splitlines()]
    assert figures
    return told.returncode, {each["name"]: each for each in figures}


def test_two_minutes_of_chaos_break_no_promise() -> None:
    status, figures = chaos("--effective", "10", "--limit-s", "240", "--drain-s", "240")
    assert figures["chaos_violations"]["value"] == 0, figures
    assert figures["chaos_effective_faults"]["value"] >= 6, figures
    assert status == 0


def test_without_a_sweeper_the_checker_reports_lost_jobs() -> None:
    killed = ("--only", "kill_worker", "--effective", "2", "--limit-s", "240", "--drain-s", "8")
    status, figures = chaos("--without", "sweeper", *killed)
    assert figures["chaos_lost"]["value"] > 0
    assert figures["chaos_violations"]["of"]["P1"] > 0
    assert status == 1


def test_without_a_fence_the_checker_reports_stale_writes() -> None:
    frozen = ("--only", "freeze_worker", "--effective", "2", "--limit-s", "240", "--drain-s", "30")
    status, figures = chaos("--without", "fence", *frozen)
    assert {"P3", "P8"} & figures["chaos_violations"]["of"].keys()
    assert status == 1
