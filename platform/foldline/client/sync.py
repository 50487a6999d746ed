"""The client for ordinary programs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from foldline.client import wire
from foldline.client.asks import Ask, Call, Flow, Lost, Options, Pause, Reply
from foldline.client.batching import SeenBatch
from foldline.client.calling import Noticed, quiet
from foldline.client.events import Event, Listening, Reader
from foldline.client.flows import Flows
from foldline.client.landing import blocks
from foldline.client.patience import Patience
from foldline.client.shapes import (
    Artifact,
    Batch,
    Estimate,
    Job,
    Model,
    Page,
    Result,
    Usage,
)
from foldline.client.watching import Mode, Seen, unseen

T = TypeVar("T")


class Foldline:
    """Foldline at `url`, called with the API key `key`.

    Every method may raise FoldlineError. A failure that may pass is tried again for as long as
    `patience` says; `noticed` is told of each. Threads may share one; `close` it at the end.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        patience: Patience = Patience(),  # noqa: B008 - it is frozen
        noticed: Noticed = quiet,
    ) -> None:
        base = wire.base_url(url)
        self._http = httpx.Client(base_url=base, headers=wire.headers(key))
        self._flows = Flows(url=base, patience=patience, noticed=noticed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def models(self) -> list[Model]:
        """Every model that can be called."""
        return self._run(self._flows.models())

    def model(self, name: str) -> Model:
        return self._run(self._flows.model(name))

    def estimate(self, model: str, inputs: dict[str, Any], **options: Unpack[Options]) -> Estimate:
        """What a call would come to; nothing is queued."""
        return self._run(self._flows.estimate(Call(model=model, inputs=inputs, options=options)))

    def submit(
        self,
        model: str,
        inputs: dict[str, Any],
        *,
        idempotency_key: str = "",
        **options: Unpack[Options],
    ) -> Job:
        """Submit a call. Without a key of yours one is made, so that no retry makes a second job;
        with one, neither does the same program started again."""
        call = Call(model=model, inputs=inputs, options=options, idempotency_key=idempotency_key)
        return self._run(self._flows.submit(call))

    def run(
        self,
        model: str,
        inputs: dict[str, Any],
        *,
        idempotency_key: str = "",
        timeout_s: float | None = None,
        seen: Seen = unseen,
        **options: Unpack[Options],
    ) -> Result:
        """Submit, wait, and fetch the result. Raises JobFailed, and TimedOut after `timeout_s`."""
        call = Call(model=model, inputs=inputs, options=options, idempotency_key=idempotency_key)
        return self._run(self._flows.run(call, timeout_s=timeout_s, seen=seen))

    def job(self, job_id: str) -> Job:
        return self._run(self._flows.job(job_id))

    def jobs(self, **filters: str) -> Page:
        """Your jobs, newest first. Filters: session, state, model, cursor, limit."""
        return self._run(self._flows.jobs(filters))

    def wait(
        self,
        jobs: Sequence[Job | str],
        mode: Mode = "all",
        *,
        timeout_s: float | None = None,
        seen: Seen = unseen,
    ) -> list[Job]:
        """The jobs once all (any) have ended, in the same order, however they ended.

        `seen` is called with all of them after each look. Raises TimedOut after `timeout_s`.
        """
        return self._run(self._flows.wait(jobs, mode=mode, timeout_s=timeout_s, seen=seen))

    def events(self, job_id: str, *, last_id: str = "") -> Iterator[Event]:
        """What happens to the job until it has ended; a cut line is taken up where it was."""
        listening = Listening(calling=self._flows, job_id=job_id, reader=Reader(last_id=last_id))
        over = False
        while not over:
            stream: httpx.Response = self._run(listening.connect()).stream
            try:
                for chunk in stream.iter_bytes():
                    yield from listening.heard(chunk)
            except httpx.RequestError:
                pass
            finally:
                stream.close()
            over = self._run(listening.over())

    def result(self, job_id: str) -> Result:
        return self._run(self._flows.result(job_id))

    def cancel(self, job_id: str) -> Job:
        return self._run(self._flows.cancel(job_id))

    def batch(self, calls: Sequence[Call], **options: Unpack[Options]) -> Batch:
        """Submit 1 to 100 calls together; `options` hold for all. See each item's job or error."""
        return self._run(self._flows.batch(calls, options))

    def follow(
        self, batch: Batch, *, timeout_s: float | None = None, seen: SeenBatch = unseen
    ) -> Batch:
        """The batch once all its jobs have ended. Raises TimedOut after `timeout_s`."""
        return self._run(self._flows.follow(batch, timeout_s=timeout_s, seen=seen))

    def upload(self, path: str | Path, *, name: str = "") -> Artifact:
        """Keep a file at the server; the same bytes twice are one artifact."""
        return self._run(self._flows.upload(Path(path), name=name or Path(path).name))

    def artifact(self, artifact_id: str) -> Artifact:
        return self._run(self._flows.artifact(artifact_id))

    def download(self, artifact_id: str, target: str | Path) -> Artifact:
        """Write the file to `target`, whole and with the right hash, or not at all."""
        return self._run(self._flows.download(artifact_id, Path(target)))

    def usage(self, **filters: str) -> Usage:
        """What was used, saved and is left. Filters: from, to (UTC days), session, model."""
        return self._run(self._flows.usage(filters))

    def _run(self, flow: Flow[T]) -> T:
        answer: Reply | Lost | None = None
        try:
            while True:
                answer = self._do(flow.send(answer))
        except StopIteration as end:
            done: T = end.value
            return done
        finally:
            flow.close()  # a download that is interrupted leaves no file behind

    def _do(self, step: Ask | Pause) -> Reply | Lost | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            return self._ask(step)
        except httpx.RequestError as error:
            return wire.lost(error)

    def _ask(self, ask: Ask) -> Reply:
        body = blocks(ask.file) if ask.file else None
        response = self._http.send(wire.request_of(ask, self._http, body=body), stream=True)
        if ask.stream and response.is_success:
            return wire.reply_of(response, stream=response)
        try:
            if ask.landing is None or not response.is_success:
                return wire.reply_of(response, content=response.read())
            ask.landing.begin()
            for chunk in response.iter_bytes():
                ask.landing.take(chunk)
            return wire.reply_of(response)
        finally:
            response.close()
