"""A model that adds up steps, saves after each, and fails in the ways it is told to."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from pathlib import Path

from model_plugins.base import (
    DependencyUnavailable,
    GpuOutOfMemory,
    Inputs,
    JobCancelled,
    JobContext,
    LoadContext,
    Result,
)

REFUSES, WAITS = "stepper-does-not-load", "stepper-loads-for-ever"


class Stepper:
    """It does not load while a file named as above lies in the worker's state folder."""

    def load(self, context: LoadContext) -> None:
        home = Path.cwd().parents[2]
        while (home / WAITS).exists():
            time.sleep(0.02)
        if (home / REFUSES).exists():
            raise RuntimeError("told not to load")

    def degrade(self, inputs: Inputs) -> Inputs | None:
        batch = inputs.get("batch", 1)
        return {**inputs, "batch": batch // 2} if batch > 1 else None

    def infer(self, inputs: Inputs, context: JobContext) -> Result:
        if context.attempt < inputs.get("available_from", 1):
            raise DependencyUnavailable
        saved = context.resume()
        total, first = json.loads(saved) if saved else (0, 1)
        computed = []
        dies_at = inputs.get("die_at", math.inf)
        dies = context.attempt <= inputs.get("deaths", 1)
        much = inputs.get("batch", 1) > inputs.get("fits", 64)
        for step in range(first, inputs["steps"] + 1):
            if context.cancelled:
                raise JobCancelled
            if much and step >= inputs.get("memory_at", 1):
                raise GpuOutOfMemory(f"A batch of {inputs['batch']} does not fit.")
            time.sleep(inputs.get("seconds", 0))
            if step == inputs["steps"]:
                self._wait(inputs, context)
            total += step
            computed.append(step)
            context.save_checkpoint(json.dumps([total, step + 1]).encode(), step=step)
            if dies and step >= dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return {"total": total, "computed": computed, "batch": inputs.get("batch", 1)}

    def _wait(self, inputs: Inputs, context: JobContext) -> None:
        while "until" in inputs and not Path(inputs["until"]).exists():
            if context.cancelled:
                raise JobCancelled
            time.sleep(0.02)
