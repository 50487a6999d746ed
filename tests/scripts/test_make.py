from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from foldline.environment import ROOT

TARGETS = [
    *("help", "setup", "up", "demo", "test", "lint", "types", "arch", "lock", "check", "bench"),
    *("chaos", "openapi"),
]


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_help_is_the_default_and_names_every_target() -> None:
    # Under `make test` this is a make within a make, which says where it enters and leaves.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("M")}
    done = subprocess.run(["make"], cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    assert re.findall(r"make (\w+)", done.stdout)[: len(TARGETS) + 2]
    assert sorted({line.split()[1] for line in done.stdout.splitlines()}) == sorted(TARGETS)


def test_the_readme_says_every_recipe_in_words() -> None:
    readme = (ROOT / "README.md").read_text()
    for command in ("scripts/setup", "manage.py demo", "manage.py up --demo", "-m pytest"):
        assert command in readme
