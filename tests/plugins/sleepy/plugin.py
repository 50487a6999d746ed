"""A model that sleeps. With `seconds` 0 it is the no-op that the platform is measured with."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model_plugins.base import Inputs, JobCancelled, JobContext, LoadContext, PluginError, Result

STEP_S = 0.02


class Sleepy:
    """FOLDLINE_TEST_LOAD_SECONDS in its environment makes loading slow."""

    def load(self, context: LoadContext) -> None:
        context.phase("sleep")
        time.sleep(float(os.environ.get("FOLDLINE_TEST_LOAD_SECONDS", "0")))

    def infer(self, inputs: Inputs, context: JobContext) -> Result:
        self._sleep(inputs, context)
        result: dict[str, Any] = {"echo": inputs.get("echo", ""), "seed": context.seed}
        if inputs.get("file", False):
            file = context.output("echo.txt", media_type="text/plain")
            file.path.write_text(result["echo"], encoding="utf-8")
            result["file"] = file
        return result

    def batch_key(self, inputs: Inputs) -> str:
        return str(inputs["seconds"])

    def infer_batch(
        self, items: Sequence[tuple[Inputs, JobContext]]
    ) -> Sequence[Result | PluginError]:
        answers: list[Result | PluginError] = []
        for inputs, context in items:
            try:
                answers.append(self.infer(inputs, context))
            except PluginError as error:
                answers.append(error)
        return answers

    def _sleep(self, inputs: Inputs, context: JobContext) -> None:
        whole = float(inputs["seconds"])
        began = time.monotonic()
        while (left := began + whole - time.monotonic()) > 0:
            if inputs.get("progress", False):
                context.progress(1 - left / whole, stage="sleep", message=f"{left:.1f} s left")
            self._rest(min(STEP_S, left), context)
        while "until" in inputs and not Path(inputs["until"]).exists():
            self._rest(STEP_S, context)

    def _rest(self, seconds: float, context: JobContext) -> None:
        if context.cancelled:
            raise JobCancelled
        time.sleep(seconds)
