"""The contract test finds what a plugin's author gets wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from model_plugins.testing import Report, check_plugin

REPOSITORY = Path(__file__).resolve().parents[2]
MANIFEST = """
[model]
name = "counter"
title = "Counter"
description = "Counts the bytes of a file."
lane = "online"
licence = "Apache-2.0"

[plugin]
entry = "plugin:Plugin"
runtime = "plain"
version = "1.0"
seed_default = "fixed"
load_timeout_s = 5
run_timeout_s = 5
memory_mb = 64
"""
INPUT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["file"],
    "properties": {
        "file": {
            "type": "string",
            "format": "artifact",
            "description": "An artifact id of any file.",
            "x-unit": "artifact id",
            "examples": ["01936f8e-7c1a-7b3e-9d2f-5a6b7c8d9e0f"],
        }
    },
    "examples": [{"file": "01936f8e-7c1a-7b3e-9d2f-5a6b7c8d9e0f"}],
}
OUTPUT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["count", "copy"],
    "properties": {"count": {"type": "integer"}, "copy": {"type": "object"}},
}
PLUGIN = """
from __future__ import annotations

from pathlib import Path


class Plugin:
    def load(self, context):
        context.phase("nothing")

    def infer(self, inputs, context):
        body = Path(inputs["file"]).read_bytes()
        context.progress(0.5)
        copy = context.output("copy.bin", media_type="application/octet-stream")
        copy.path.write_bytes(body)
        context.progress(1.0)
        return {"count": len(body), "copy": copy}
"""
BATCHED = """
    def batch_key(self, inputs):
        return ""

    def infer_batch(self, items):
        return [self.infer(*item) for item in items]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "counter"
    (home / "examples").mkdir(parents=True)
    (home / "examples" / "file.txt").write_text("twelve bytes")
    (home / "manifest.toml").write_text(MANIFEST)
    (home / "runtime.toml").write_text('name = "plain"\n')
    (home / "input.schema.json").write_text(json.dumps(INPUT))
    (home / "output.schema.json").write_text(json.dumps(OUTPUT))
    (home / "plugin.py").write_text(PLUGIN)
    return home


@pytest.fixture
def examine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    """The report on the plugin after a change of its code."""

    def run(old: str = "", new: str = "", *, more: str = "") -> Report:
        assert old in PLUGIN
        (folder / "plugin.py").write_text(PLUGIN.replace(old, new) + more if old else PLUGIN + more)
        # A folder outside the repository is imported once per process under one name.
        for module in [name for name in sys.modules if name.startswith("foldline_plugin_counter")]:
            monkeypatch.delitem(sys.modules, module)
        return check_plugin(folder)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return run


def failures(report: Report) -> dict[str, str]:
    return {check.name: check.detail for check in report.checks if not check.ok}


def test_a_good_plugin_passes(examine: Callable[..., Report]) -> None:
    report = examine(more=BATCHED)
    assert report.ok, str(report)
    assert [check.name for check in report.checks][-1] == (
        "example 1 gives the same answer in a batch"
    )


@pytest.mark.parametrize(
    ("old", "new", "check", "detail"),
    [
        ("def load", "def lode", "it loads", "has no method load"),
        ("return {", "raise ValueError('no') #", "runs", "model_error: ValueError: no"),
        ('"count": len(body), ', "", "fits the output schema", "missing: ['count']"),
        ('"count"', '"number": 1, "count"', "fits the output schema", "in the schema: ['number']"),
        ("len(body)", "float('nan')", "runs", "model_output_invalid"),
        ("write_bytes(body)", "touch()", "files with content", "empty: copy.bin"),
        ("copy.path.write_bytes(body)", "pass", "runs", "never written"),
        ("progress(1.0)", "progress(0.1)", "progress forwards", "it goes back: [0.5, 0.1]"),
        ("progress(1.0)", "progress(7)", "progress forwards", "outside 0 to 1: [0.5, 7]"),
        ("len(body)", "__import__('time').monotonic_ns()", "the same answer twice", "then"),
        ("body = ", "inputs['x'] = body = ", "runs", "it changed its inputs"),
    ],
)
def test_a_mistake_is_found_and_named(
    examine: Callable[..., Report], old: str, new: str, check: str, detail: str
) -> None:
    found = failures(examine(old, new))
    (name,) = [name for name in found if name.endswith(check)]
    assert detail in found[name]


def test_an_answer_that_depends_on_its_batch_is_found(examine: Callable[..., Report]) -> None:
    more = BATCHED + "\n    def infer_batch(self, items):\n"
    more += "        return [{**self.infer(*item), 'count': len(items)} for item in items]\n"
    assert "gives the same answer in a batch" in str(failures(examine(more=more)))


def test_a_checkpoint_that_leads_to_another_answer_is_found(
    examine: Callable[..., Report],
) -> None:
    read, save = "body = ", "context.save_checkpoint(b'x', step=1); body = "
    assert examine(read, save).ok
    found = failures(examine(read, f"{save} context.resume() or "))
    assert "example 1 gives the same answer from its first checkpoint" in found


def test_an_incomplete_input_field_is_found(folder: Path) -> None:
    field = {"type": "integer", "minimum": 0}
    schema = {**INPUT, "properties": {**INPUT["properties"], "n": field}}  # type: ignore[dict-item]  # a literal of mixed values
    (folder / "input.schema.json").write_text(json.dumps(schema))
    detail = failures(check_plugin(folder))["every input field is complete"]
    assert detail.endswith("n (description, x-unit, examples, a limit)")


def test_a_missing_example_file_is_found(folder: Path) -> None:
    (folder / "examples" / "file.txt").unlink()
    detail = failures(check_plugin(folder))["example 1 has its files"]
    assert detail == "examples/file.* must be one file, there are 0"


def test_a_bad_manifest_ends_the_check(folder: Path) -> None:
    (folder / "manifest.toml").write_text("")
    (check,) = check_plugin(folder).checks
    assert not check.ok


def test_another_interpreter_may_do_the_check(folder: Path) -> None:
    report = check_plugin(folder, python=Path(sys.executable))
    assert report.ok, str(report)


def test_an_interpreter_that_dies_is_told(folder: Path) -> None:
    (folder / "plugin.py").write_text("import os\nos._exit(9)\n")
    report = check_plugin(folder, python=Path(sys.executable))
    assert failures(report) == {"the check ends": "it left with 9"}


def test_printing_does_not_spoil_the_report(folder: Path) -> None:
    noisy = PLUGIN.replace("body =", "import os; os.write(1, b'{noise'); print('noise'); body =")
    (folder / "plugin.py").write_text(noisy)
    done = subprocess.run(
        [sys.executable, "-m", "model_plugins.testing", folder],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "noise" in done.stderr
    assert "noise" not in done.stdout
    assert all(line.startswith("ok ") for line in done.stdout.splitlines())


def test_the_command_fails_when_a_check_fails(folder: Path) -> None:
    (folder / "plugin.py").write_text(PLUGIN.replace("def infer", "def infr"))
    done = subprocess.run(
        [sys.executable, "-m", "model_plugins.testing", folder],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "FAIL  the weights are there and it loads: LoadFailed" in done.stdout


@pytest.mark.weights
@pytest.mark.parametrize("name", ["flash_abb", "proteinmpnn", "structure_score"])
def test_the_built_in_models_keep_the_contract(
    builtin_python: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    report = check_plugin(REPOSITORY / "model_plugins" / name, python=builtin_python)
    assert report.ok, str(report)
