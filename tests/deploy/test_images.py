"""The images: nobody is root, signals arrive, and no model code where none belongs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field

import pytest

from foldline.environment import ROOT

ARGUMENT = re.compile(r"--\S+\s+")


@dataclass
class Stage:
    name: str
    base: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        return [rest for keyword, rest in self.lines if keyword == word]


def stages() -> dict[str, Stage]:
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text()).replace("\\\n", " ")
    found: dict[str, Stage] = {}
    current = Stage("", "")
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            current = found[name] = Stage(name, base)
        else:
            current.lines.append((word, rest.strip()))
    return found


def line_of(name: str) -> list[Stage]:
    """A stage and what it stands on, the first one first."""
    known = stages()
    stage = known[name]
    return [*(line_of(stage.base) if stage.base in known else []), stage]


def last(name: str, word: str) -> str:
    return [rest for stage in line_of(name) for rest in stage.all(word)][-1]


IMAGES = ["gateway", "scaler", "worker"]


@pytest.mark.parametrize("image", IMAGES)
def test_nobody_is_root(image: str) -> None:
    assert last(image, "USER") == "foldline"
    assert "--uid 10001 foldline" in " ".join(line_of(image)[0].all("RUN"))


@pytest.mark.parametrize("image", IMAGES)
def test_a_signal_reaches_the_program_itself(image: str) -> None:
    word = "ENTRYPOINT" if image == "worker" else "CMD"
    command = json.loads(last(image, word))
    assert command[0] == "python"


@pytest.mark.parametrize("image", IMAGES)
def test_it_tells_whether_it_is_well(image: str) -> None:
    check = ARGUMENT.sub("", last(image, "HEALTHCHECK"))
    command = json.loads(check.removeprefix("CMD "))
    assert command[:2] in (["python", "-m"], ["python", "-c"])


@pytest.mark.parametrize("image", ["gateway", "scaler"])
def test_only_a_worker_has_model_code(image: str) -> None:
    assert not any("runtime install" in run for stage in line_of(image) for run in stage.all("RUN"))
    assert not re.search(r"(?m)^torch\b", (ROOT / "requirements" / "control.txt").read_text())


def test_a_worker_has_the_one_runtime_that_was_named() -> None:
    [worker] = [stage for stage in line_of("worker") if stage.name == "worker"]
    assert "RUNTIME=builtin" in worker.all("ARG")
    assert [run for run in worker.all("RUN") if 'manage.py runtime install "$RUNTIME"' in run]


def test_the_stage_that_builds_is_left_behind() -> None:
    assert [stage.name for stage in line_of("gateway")] == ["control", "gateway"]
    assert stages()["packages"].all("RUN")[0].count("--no-cache-dir") == 1


def test_no_state_and_no_tests_get_into_an_image() -> None:
    ignored = set((ROOT / ".dockerignore").read_text().split())
    assert {".git", ".venv", "var", "tests"} <= ignored


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("image", ["gateway", "scaler"])
def test_it_can_be_built(image: str) -> None:
    builder = _builder()
    built = subprocess.run(
        [*builder, "--target", image, "--tag", f"foldline-{image}-test", str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-2000:]


def _builder() -> list[str]:
    """A program that really builds images here."""
    for name, probe, build in (
        ("docker", ["info"], ["build"]),
        ("buildah", ["info"], ["build"]),
    ):
        if shutil.which(name) and _works([name, *probe]):
            return [name, *build]
    pytest.skip("no image can be built here: neither docker nor buildah has what it needs")


def _works(command: list[str]) -> bool:
    asked = subprocess.run(command, capture_output=True, timeout=20, check=False)
    return asked.returncode == 0
