"""What the client can do, each once, as a flow: it says what to ask, and reads what came.

Nothing here sends or sleeps, so the sync and the async client share all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from foldline.client.asks import Ask, Call, File, Flow, Options, place, post
from foldline.client.batching import SeenBatch, follow, send
from foldline.client.calling import Calling, json_of, read_body
from foldline.client.errors import BadAnswer, JobFailed
from foldline.client.landing import landing
from foldline.client.shapes import Artifact, Batch, Estimate, Job, Model, Page, Result, Usage
from foldline.client.watching import Mode, Seen, watch


class Flows(Calling):
    def models(self) -> Flow[list[Model]]:
        reply = yield from self.call(Ask(method="GET", path=place("models")))
        listed = json_of(reply)
        models = listed.get("models") if isinstance(listed, dict) else None
        if not isinstance(models, list):
            raise BadAnswer("The answer lists no models.")
        return [read_body(Model, each) for each in models]

    def model(self, name: str) -> Flow[Model]:
        return self.told(Model, Ask(method="GET", path=place("models", name)))

    def estimate(self, call: Call) -> Flow[Estimate]:
        call = yield from self.with_files(call)
        ask = post(place("models", call.model, "estimate"), call.body())
        return (yield from self.told(Estimate, ask))

    def submit(self, call: Call) -> Flow[Job]:
        call = yield from self.with_files(call)
        key = call.idempotency_key or uuid4().hex
        ask = post(place("models", call.model, "jobs"), call.body(), key=key)
        return (yield from self.told(Job, ask))

    def run(self, call: Call, *, timeout_s: float | None, seen: Seen) -> Flow[Result]:
        job = yield from self.submit(call)
        (job,) = yield from self.wait([job], mode="all", timeout_s=timeout_s, seen=seen)
        if job.state != "succeeded":
            raise JobFailed(job)
        return (yield from self.result(job.id))

    def job(self, job_id: str) -> Flow[Job]:
        return self.told(Job, Ask(method="GET", path=place("jobs", job_id)))

    def jobs(self, filters: Mapping[str, str]) -> Flow[Page]:
        return self.told(Page, Ask(method="GET", path=place("jobs"), query=filters))

    def wait(
        self,
        jobs: Sequence[Job | str],
        *,
        mode: Mode,
        timeout_s: float | None,
        seen: Seen,
    ) -> Flow[list[Job]]:
        return watch(self, jobs, mode=mode, timeout_s=timeout_s, seen=seen)

    def batch(self, calls: Sequence[Call], options: Options) -> Flow[Batch]:
        ready = []
        for call in calls:
            with_key = replace(call, idempotency_key=call.idempotency_key or uuid4().hex)
            ready.append((yield from self.with_files(with_key)))
        return (yield from send(self, ready, options))

    def follow(self, batch: Batch, *, timeout_s: float | None, seen: SeenBatch) -> Flow[Batch]:
        return follow(self, batch, timeout_s=timeout_s, seen=seen)

    def result(self, job_id: str) -> Flow[Result]:
        return self.told(Result, Ask(method="GET", path=place("jobs", job_id, "result")))

    def cancel(self, job_id: str) -> Flow[Job]:
        return self.told(Job, post(place("jobs", job_id, "cancel")))

    def upload(self, path: Path, *, name: str) -> Flow[Artifact]:
        ask = Ask(method="POST", path=place("artifacts"), query={"name": name}, file=path)
        return self.told(Artifact, ask)

    def artifact(self, artifact_id: str) -> Flow[Artifact]:
        return self.told(Artifact, Ask(method="GET", path=place("artifacts", artifact_id)))

    def download(self, artifact_id: str, target: Path) -> Flow[Artifact]:
        """`target` appears whole and with the right hash, or not at all."""
        artifact = yield from self.artifact(artifact_id)
        with landing(target) as file:
            ask = Ask(method="GET", path=place("artifacts", artifact_id, "content"), landing=file)
            yield from self.call(ask)
            if file.sha256 != artifact.sha256:
                raise BadAnswer(f"What came of {artifact_id} has not its SHA-256.")
        return artifact

    def usage(self, filters: Mapping[str, str]) -> Flow[Usage]:
        return self.told(Usage, Ask(method="GET", path=place("usage"), query=filters))

    def with_files(self, call: Call) -> Flow[Call]:
        inputs = yield from self._uploaded(call.inputs)
        return replace(call, inputs=inputs)

    def _uploaded(self, given: Any) -> Flow[Any]:
        """The same, each File uploaded and its artifact's id in its place."""
        if isinstance(given, File):
            artifact = yield from self.upload(given.path, name=given.path.name)
            return artifact.id
        if isinstance(given, Mapping):
            done: dict[str, Any] = {}
            for name, value in given.items():
                done[name] = yield from self._uploaded(value)
            return done
        if isinstance(given, list | tuple):
            each = []
            for value in given:
                each.append((yield from self._uploaded(value)))
            return each
        return given
