from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SERVER = Path(__file__).with_name("bench_server.py")
Call = Mapping[str, Any]


class RemoteBench:
    """A bench in the runtime's interpreter: one loaded plugin, asked line by line."""

    def __init__(self, python: Path, folder: Path) -> None:
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [python, SERVER, folder],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **threads},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, inputs: Mapping[str, Any], *, seed: int = 0, **more: Any) -> dict[str, Any]:
        """The outcome of one job, with the text of its files."""
        return self._ask([{"inputs": inputs, "seed": seed, **more}], batch=False)[0]

    def run_batch(self, calls: Sequence[Call]) -> list[dict[str, Any]]:
        """The outcomes of jobs that are answered in one call."""
        return self._ask(calls, batch=True)

    def _ask(self, calls: Sequence[Call], *, batch: bool) -> list[dict[str, Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"calls": calls, "batch": batch}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the bench ended without an answer; see its stderr"
        outcomes: list[dict[str, Any]] = json.loads(answer)
        return outcomes

    def close(self) -> None:
        self._process.communicate(timeout=120)


@pytest.fixture(scope="session")
def bench_of(builtin_python: Path) -> Iterator[Callable[[str], RemoteBench]]:
    """Benches by the name of a built-in plugin, each loaded once for the whole session."""
    benches: dict[str, RemoteBench] = {}
    with ExitStack() as stack:

        def bench(name: str) -> RemoteBench:
            if name not in benches:
                folder = REPOSITORY / "model_plugins" / name
                benches[name] = RemoteBench(builtin_python, folder)
                stack.callback(benches[name].close)
            return benches[name]

        yield bench
