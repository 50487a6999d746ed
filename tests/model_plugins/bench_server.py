"""Answers calls to one plugin, a line of JSON each; run by the runtime's interpreter."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from model_plugins.bench import Bench, Outcome


def main() -> None:
    # The plugin's own printing goes to stderr.
    with os.fdopen(os.dup(1), "w") as answers, Bench(Path(sys.argv[1])) as bench:
        os.dup2(2, 1)
        for line in sys.stdin:
            asked = json.loads(line)
            jobs = [bench.context(**with_bytes(call)) for call in asked["calls"]]
            outcomes = bench.run_batch(jobs) if asked["batch"] else list(map(bench.run, jobs))
            answers.write(json.dumps([plain(outcome) for outcome in outcomes]) + "\n")
            answers.flush()


def plain(outcome: Outcome) -> dict[str, Any]:
    return {
        "result": outcome.result,
        "error": outcome.error,
        "warnings": [warning["code"] for warning in outcome.warnings],
        "files": {name: path.read_text() for name, path in outcome.files.items()},
        "fractions": list(outcome.fractions),
        "saved": [data.decode() for data in outcome.saved],
    }


def with_bytes(call: dict[str, Any]) -> dict[str, Any]:
    return {**call, "resume": call["resume"].encode()} if "resume" in call else call


main()
