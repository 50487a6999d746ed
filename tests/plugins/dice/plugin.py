"""A generator: without a seed every call gives something else."""

from __future__ import annotations

import random

from model_plugins.base import Inputs, JobContext, LoadContext, Result


class Dice:
    def load(self, context: LoadContext) -> None:
        """Nothing to load."""

    def infer(self, inputs: Inputs, context: JobContext) -> Result:
        dice = random.Random(context.seed)
        return {"eyes": [dice.randint(1, 6) for _ in range(inputs["dice"])]}
