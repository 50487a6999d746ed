"""The ProteinMPNN plugin: a backbone in, sequences for the chains to design out.

torch is imported in `load` only, so that inputs can be checked without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from model_plugins.base import (
    Inputs,
    InvalidInput,
    JobContext,
    LoadContext,
    PluginError,
    Result,
)

from .request import read_request

if TYPE_CHECKING:
    from .design import Task
    from .network import Network


class Plugin:
    """Draws sequences; a design depends on its job's inputs and seed, never on its batch."""

    _networks: dict[str, Network]

    def load(self, context: LoadContext) -> None:
        context.phase("import")
        from .network import Network

        context.phase("weights")
        self._networks = {
            name: Network(path, device=context.device) for name, path in context.weights.items()
        }

    def preflight(self, inputs: Inputs) -> tuple[Inputs, Sequence[str]]:
        _, warnings = read_request(inputs)
        return inputs, [f"{code}: {message}" for code, message in warnings]

    def batch_key(self, inputs: Inputs) -> str:
        try:
            request, _ = read_request(inputs)
        except InvalidInput:
            return "invalid"
        return f"{request.model}:{request.length}"

    def infer(self, inputs: Inputs, context: JobContext) -> Result:
        answer = self.infer_batch([(inputs, context)])[0]
        if isinstance(answer, PluginError):
            raise answer
        return answer

    def infer_batch(
        self, items: Sequence[tuple[Inputs, JobContext]]
    ) -> Sequence[Result | PluginError]:
        from .design import Task, run

        tasks = [self._task(inputs, context) for inputs, context in items]
        valid = sorted((task for task in tasks if isinstance(task, Task)), key=_batch)
        for (model, _), group in groupby(valid, key=_batch):
            run(self._networks[model], list(group))
        return [_answer(task) if isinstance(task, Task) else task for task in tasks]

    def _task(self, inputs: Inputs, context: JobContext) -> Task | PluginError:
        from .design import Task

        try:
            request, warnings = read_request(inputs)
        except InvalidInput as error:
            return error
        for code, message in warnings:
            context.warn(code, message)
        context.progress(0.0, stage="encode")
        site = self._networks[request.model].encode(request)
        return Task(request=request, context=context, site=site)


def _batch(task: Task) -> tuple[str, int]:
    return task.request.model, task.request.length


def _answer(task: Task) -> Result | PluginError:
    from .design import result

    try:
        return result(task)
    except PluginError as error:
        return error
