"""A plugin that means harm: every method of `Acts` is one attempt to break its host."""

from __future__ import annotations

from model_plugins.base import Inputs, JobContext, LoadContext, Result

from .acts import Acts


class Hostile:
    def load(self, context: LoadContext) -> None:
        pass

    def infer(self, inputs: Inputs, context: JobContext) -> Result:
        act = getattr(Acts(inputs, context), inputs["act"])
        result: Result = act()
        return result
