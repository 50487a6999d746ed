"""The worker's card and what it holds of it, by a stand-in for NVIDIA's library."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from foldline.fleet.models import Worker
from foldline.jobs.models import Attempt, Job
from tasks import gpu_peak
from tasks.cards import Card, Gauge, WrongShare, held_share, visible_card
from tasks.gpu_peak import STEP_BYTES, GpuPeak
from tests.worker_process import running_worker, until, wait_until

GIB = 1024**3
SOURCE = Path(__file__).with_name("nvml_stub.c")
FIRST = Card(uuid="GPU-first", memory_bytes=80 * GIB)

Say = Callable[..., None]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("the stand-in for NVIDIA's library is C, and there is no gcc here")
    built = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", built, SOURCE], check=True)
    return built


@pytest.fixture
def driver(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Two cards; `driver(used, (pid, bytes), …)` says what they are used for."""
    told = tmp_path / "said"
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setenv("NVML_STUB", str(told))
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)

    def say(used: int = 0, *processes: tuple[int, int]) -> None:
        lines = [str(used), *(f"{pid} {held}" for pid, held in processes)]
        told.write_text("\n".join(lines), encoding="utf-8")

    say()
    return say


def test_without_a_driver_there_is_no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    assert visible_card() is None


@pytest.mark.parametrize(
    ("shown", "uuid"),
    [
        (None, "GPU-first"),
        ("1,0", "GPU-second"),
        ("GPU-second", "GPU-second"),
        ("", None),
        ("-1", None),
        ("7", None),
        ("GPU-elsewhere", None),
    ],
)
def test_the_card_is_the_first_that_cuda_is_shown(
    driver: Say, monkeypatch: pytest.MonkeyPatch, shown: str | None, uuid: str | None
) -> None:
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    card = visible_card()
    assert (card and card.uuid) == uuid
    assert card is None or card.memory_bytes == 80 * GIB


@pytest.mark.parametrize(
    ("given", "shown", "uuid"),
    [
        ("GPU-second", None, "GPU-second"),
        ("GPU-second", "0", "GPU-second"),
        ("GPU-second", "1", "GPU-second"),  # of two that NVML shows: said by hand
        ("GPU-second,GPU-first", None, "GPU-first"),
        ("all", None, "GPU-first"),
        ("GPU-elsewhere", None, None),
    ],
)
def test_one_card_that_was_handed_out_by_name_is_the_one_that_is_meant(
    driver: Say, monkeypatch: pytest.MonkeyPatch, given: str, shown: str | None, uuid: str | None
) -> None:
    """A container that sees all cards still computes on the one that it was given."""
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", given)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    card = visible_card()
    assert (card and card.uuid) == uuid


@pytest.mark.parametrize(("said", "share"), [(None, 1.0), ("", 1.0), ("1", 1.0), ("0.25", 0.25)])
def test_a_worker_holds_the_share_that_it_is_told(
    monkeypatch: pytest.MonkeyPatch, said: str | None, share: float
) -> None:
    if said is not None:
        monkeypatch.setenv("FOLDLINE_SHARE", said)
    assert held_share() == share


@pytest.mark.parametrize("said", ["0", "-1", "1.01", "half", "nan", "inf"])
def test_a_share_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("FOLDLINE_SHARE", said)
    with pytest.raises(WrongShare, match="above 0 and at most 1"):
        held_share()


def test_what_this_worker_and_its_descendants_hold_is_counted(driver: Say) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as plugin:
        driver(50 * GIB, (os.getpid(), GIB), (plugin.pid, 7 * GIB), (1, 30 * GIB))
        assert Gauge(FIRST).held_bytes() == 8 * GIB
        assert plugin.stdin is not None
        plugin.stdin.close()


def test_where_the_driver_shows_no_process_nothing_is_known(driver: Say) -> None:
    driver(50 * GIB)
    assert Gauge(FIRST).held_bytes() == 0


def test_under_hami_the_cards_number_is_the_workers_own(
    driver: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "20480m")
    driver(9 * GIB)
    assert Gauge(FIRST).held_bytes() == 9 * GIB


def test_the_peak_stays_when_memory_is_given_back(
    driver: Say, monkeypatch: pytest.MonkeyPatch, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    monkeypatch.setattr(gpu_peak, "SAMPLE_S", 0.01)
    told: list[int] = []
    driver(0, (os.getpid(), 6 * GIB))
    peak = GpuPeak(tell=told.append)
    peak.worked(0)
    peak.watch(FIRST)
    wait_for(lambda: told == [6 * GIB])
    driver(0, (os.getpid(), 2 * GIB))
    driver(0, (os.getpid(), 9 * GIB))
    wait_for(lambda: told == [6 * GIB, 9 * GIB])
    Path(os.environ["NVML_STUB"]).unlink()  # the card is lost, which ends the thread
    wait_for(lambda: "gpu-peak" not in {thread.name for thread in threading.enumerate()})


def test_the_greater_of_torchs_number_and_the_drivers_is_told_once() -> None:
    told: list[int] = []
    peak = GpuPeak(tell=told.append)
    peak.worked(0)
    for held in (0, 5 * GIB, 3 * GIB, 5 * GIB + STEP_BYTES // 2, 5 * GIB + 2 * STEP_BYTES):
        peak.note(held)
    assert told == [5 * GIB, 5 * GIB + 2 * STEP_BYTES]


def test_before_the_first_job_nothing_is_told() -> None:
    """It would be little more than the weights, and a share of that size would end the job."""
    told: list[int] = []
    peak = GpuPeak(tell=told.append)
    peak.note(5 * GIB)
    assert told == []
    peak.worked(3 * GIB)
    assert told == [5 * GIB]


@pytest.mark.django_db(transaction=True)
@pytest.mark.processes
def test_a_worker_reports_its_card_and_what_it_held_of_it(
    library: Path, tmp_path: Path, submit_job: Callable[..., Job]
) -> None:
    told = tmp_path / "said"
    told.write_text("0", encoding="utf-8")
    driver = {"LD_LIBRARY_PATH": str(library.parent), "NVML_STUB": str(told)}
    driver["FOLDLINE_SHARE"] = "0.25"

    def held() -> int:
        return Worker.objects.get().peak_gpu_bytes

    with running_worker("hostile", log=tmp_path / "worker.log", **driver) as worker:
        wait_until(lambda: Worker.objects.filter(state="ready").exists(), what=worker.told())
        told.write_text(f"0 {worker.process.pid} {6 * GIB}", encoding="utf-8")
        until(submit_job("hostile", {"act": "claim_a_card"}), "succeeded")
        wait_until(lambda: held() == 11 * GIB, what=worker.told())
    row = Worker.objects.get()
    assert (row.card, row.card_bytes, row.share) == ("GPU-first", 80 * GIB, 0.25)
    assert Attempt.objects.get().share == 0.25, "what GPU-seconds are multiplied by"
    assert Attempt.objects.get().peak_gpu_bytes == 11 * GIB
