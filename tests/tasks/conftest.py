"""Real plugin processes and real workers for the tests of the worker's side."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import pytest
from pytest_django.fixtures import Settings

from foldline.catalog.models import Revision
from foldline.catalog.services import publish, sync
from foldline.jobs import tickets
from foldline.jobs.admission import Submission
from foldline.jobs.models import Job
from foldline.jobs.services import submit
from foldline.tenants.models import Tenant
from model_plugins.registry import discover
from tasks.host import Answer, Item, PluginHost, PluginSpec, Progress, Stop
from tests.redis_server import RedisServer, running_redis
from tests.worker_process import PATIENCE_S, WorkerProcess, link_plain_runtime, running_worker

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "tests" / "plugins"
CLASSES = {"sleepy": "Sleepy", "hostile": "Hostile", "stepper": "Stepper"}


class MakeSpec(Protocol):
    def __call__(self, name: str, **changes: Any) -> PluginSpec: ...


class MakeHost(Protocol):
    def __call__(self, name: str, **changes: Any) -> PluginHost: ...


class MakeItem(Protocol):
    def __call__(self, **inputs: Any) -> Item: ...


class Ask(Protocol):
    def __call__(
        self,
        host: PluginHost,
        *items: Item,
        seconds: float = PATIENCE_S,
        stop: Callable[[], Stop | None] = lambda: None,
        progress: Callable[[str, Progress], None] = lambda job, told: None,
    ) -> list[Answer]: ...


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object]], None]:
    """Wait until a condition holds; fails after a bounded time."""

    def wait(condition: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, "the condition never came true"
            time.sleep(0.01)

    return wait


@pytest.fixture
def is_running() -> Callable[[int], bool]:
    """Whether a process exists and is more than a zombie that waits for its parent."""

    def running(pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] not in ("Z", "X")

    return running


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    def make(name: str, **changes: Any) -> PluginSpec:
        homes = tmp_path / "homes"
        homes.mkdir(exist_ok=True)
        values: dict[str, Any] = {
            "name": name,
            "folder": PLUGINS / name,
            "entry": f"plugin:{CLASSES.get(name, 'Plugin')}",
            "python": Path(sys.executable),
            "threads": 1,
            "device": "cpu",
            "weights": (),
            "load_timeout_s": PATIENCE_S,
            "import_root": ROOT,
            "scratch": homes,
        }
        return PluginSpec(**(values | changes))

    return make


@pytest.fixture
def make_host(make_spec: MakeSpec) -> Iterator[MakeHost]:
    """Started hosts; stopped at the end of the test."""
    hosts: list[PluginHost] = []

    def make(name: str, **changes: Any) -> PluginHost:
        host = PluginHost(make_spec(name, **changes))
        hosts.append(host)
        host.start()
        return host

    yield make
    for host in hosts:
        host.stop()


@pytest.fixture
def make_item(tmp_path: Path) -> MakeItem:
    numbers = itertools.count(1)

    def make(**inputs: Any) -> Item:
        number = next(numbers)
        scratch = tmp_path / f"scratch-{number}"
        scratch.mkdir()
        checkpoints = tmp_path / f"checkpoints-{number}"
        checkpoints.mkdir()
        return Item(
            job=f"job-{number}",
            attempt=1,
            inputs=inputs,
            seed=7,
            scratch=scratch,
            checkpoints=checkpoints,
        )

    return make


@pytest.fixture
def ask() -> Ask:
    """One call of a host that is, or becomes, ready."""

    def call(
        host: PluginHost,
        *items: Item,
        seconds: float = PATIENCE_S,
        stop: Callable[[], Stop | None] = lambda: None,
        progress: Callable[[str, Progress], None] = lambda job, told: None,
    ) -> list[Answer]:
        assert host.ready.wait(PATIENCE_S), host.broken
        end = time.monotonic() + seconds
        return host.call(
            items,
            seconds_left=lambda: end - time.monotonic(),
            stop=stop,
            progress=progress,
        )

    return call


@pytest.fixture
def server(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RedisServer]:
    """A Redis of the test's own, and a state folder with the runtime of the test plugins."""
    # Nobody sweeps here: a ticket that Redis was late for would never be sent again.
    monkeypatch.setattr("foldline.jobs.wire.SOCKET_TIMEOUT_S", PATIENCE_S)
    settings.HOME = tmp_path / "home"
    settings.ARTIFACTS_DIR = settings.HOME / "artifacts"
    link_plain_runtime(settings.HOME)
    with running_redis(tmp_path) as server:
        settings.REDIS_URL = server.url
        tickets.publisher.cache_clear()
        yield server
        tickets.publisher.cache_clear()


@pytest.fixture
def revisions(server: RedisServer) -> dict[str, Revision]:
    """The test plugins, live, one job at a time."""
    sync(discover([PLUGINS]))
    Revision.objects.update(max_batch_size=1)
    for revision in Revision.objects.all():
        publish(revision, by=None)
    return {revision.model.name: revision for revision in Revision.objects.all()}


@pytest.fixture
def submit_job(revisions: dict[str, Revision]) -> Callable[..., Job]:
    """Submit a job of a test plugin: `submit_job("sleepy", inputs, **of_the_submission)`.

    No two jobs are equal calls, unless the test gives them the same `fingerprint`.
    """
    tenant = Tenant.objects.create(slug="lab", name="A laboratory")

    def make(model: str, inputs: dict[str, Any], **changes: Any) -> Job:
        revision = revisions[model]
        fields: dict[str, Any] = {
            "tenant_id": tenant.id,
            "model_id": revision.model_id,
            "revision_id": revision.id,
            "queue": tickets.queue_name(model, number=revision.number),
            "inputs": inputs,
            "normalized_input": inputs,
            "seed": 7,
            "seed_origin": "caller",
            "fingerprint": f"{uuid4().hex:f<64}",
            "payload_digest": "d" * 64,
        }
        return Job.objects.get(id=submit(Submission(**{**fields, **changes})).job_id)

    return make


def _worker_of(model: str) -> Any:
    @pytest.fixture(name=model)
    def worker(revisions: dict[str, Revision], tmp_path: Path) -> Iterator[WorkerProcess]:
        with running_worker(model, log=tmp_path / f"{model}.log") as worker:
            yield worker

    return worker


sleepy, hostile, stepper = map(_worker_of, ("sleepy", "hostile", "stepper"))
"""A running worker of each test plugin."""
