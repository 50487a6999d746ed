"""The plugin process: loads one plugin and answers one call after the other.

Started by the keeper as `python -m model_plugins.runner IN OUT KEEPER`: two descriptors that
speak `frames`, and the keeper's process id. It ends when the keeper dies, when IN is closed
and when the plugin ends it. Whatever the plugin prints goes to the inherited log pipe; the
two descriptors are moved out of its way. Standard library and the plugin, nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from model_plugins.answers import answer, describe, failure
from model_plugins.base import Batches, Degrades, Inputs, OutputInvalid, Plugin
from model_plugins.contexts import Job, Loading, Phases
from model_plugins.frames import HEADER, Frame, FrameError, body_length, decode, encode
from model_plugins.loading import import_plugin, verified_weights

PR_SET_PDEATHSIG = 1
LOWEST_WIRE_FD = 10
EX_PROTOCOL = 76


class Wire:
    """Frames over two descriptors that no child process inherits."""

    def __init__(self, *, reads: int, writes: int) -> None:
        self._reads, self._writes = _moved(reads), _moved(writes)
        self._sending = threading.Lock()  # a plugin may report progress from its own threads

    def send(self, kind: str, fields: Mapping[str, Any]) -> None:
        data = memoryview(encode(kind, **fields))
        with self._sending:
            while data:
                data = data[os.write(self._writes, data) :]

    def receive(self) -> Frame:
        return decode(self._exactly(body_length(self._exactly(HEADER.size))))

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = os.read(self._reads, size - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)


class Inbox:
    """Reads the wire in a thread of its own, so that `cancel` arrives during a call."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._cancelled: set[tuple[int, str]] = set()
        threading.Thread(target=self._read, name="foldline-inbox", daemon=True).start()

    def next(self) -> Frame:
        return self._frames.get()

    def is_cancelled(self, call: int, job: str) -> bool:
        return (call, job) in self._cancelled

    def forget(self, call: int) -> None:
        """Drop what was cancelled in this call and before."""
        self._cancelled = {entry for entry in self._cancelled if entry[0] > call}

    def _read(self) -> None:
        try:
            while True:
                frame = self._wire.receive()
                if frame["type"] == "cancel":
                    self._cancelled.add((frame["call"], frame["job"]))
                else:
                    self._frames.put(frame)
        except EOFError:
            os._exit(0)  # the host is gone or wants no more
        except (FrameError, KeyError, OSError) as error:
            _leave(EX_PROTOCOL, f"no proper frame from the host: {error}")


def main(arguments: Sequence[str]) -> None:
    reads, writes, keeper = (int(argument) for argument in arguments)
    _die_with(keeper)
    # Line by line, so that the last words of a process that is killed are in the log.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a TextIOWrapper here
    wire = Wire(reads=reads, writes=writes)
    inbox = Inbox(wire)
    home = Path.cwd()
    plugin = _load(inbox.next(), wire)
    while True:
        frame = inbox.next()
        os.chdir(home)
        wire.send("done", _call(plugin, frame, inbox=inbox, wire=wire))
        inbox.forget(frame["call"])


def _load(frame: Frame, wire: Wire) -> Plugin:
    phases = Phases()
    try:
        plugin = _loaded(frame, phases)
    except Exception as error:
        wire.send("broken", {"error": describe(error, otherwise="load_failed")})
        _leave(1)
    phases.enter("")
    ready = {"phases": phases.seconds, "device": frame["device"], **_peaks()}
    wire.send("ready", ready)
    return plugin


def _loaded(frame: Frame, phases: Phases) -> Plugin:
    _limit(frame["limits"])
    phases.enter("check_weights")
    weights = verified_weights(frame["weights"])
    phases.enter("import")
    plugin = import_plugin(
        name=frame["plugin"]["name"],
        folder=Path(frame["plugin"]["folder"]),
        entry=frame["plugin"]["entry"],
    )
    threads = frame["threads"]
    _limit_torch(threads)
    phases.enter("load")
    plugin.load(Loading(device=frame["device"], threads=threads, weights=weights, phases=phases))
    _limit_torch(threads)  # again: it may have been imported only now
    return plugin


def _call(plugin: Plugin, frame: Frame, *, inbox: Inbox, wire: Wire) -> dict[str, Any]:
    call, items = frame["call"], frame["items"]

    def job(item: Mapping[str, Any]) -> Job:
        name = item["job"]
        return Job(item, is_cancelled=lambda: inbox.is_cancelled(call, name), send=wire.send)

    if len(items) == 1 and items[0]["ran_out"]:
        answer_again = _again(plugin, items[0], job)
        return {"call": call, "items": [answer_again], **_peaks()}
    answers = None
    if len(items) > 1 and isinstance(plugin, Batches):
        answers = _together(plugin, [job(item) for item in items])
    if answers is None:
        answers = [_alone(plugin, job(item)) for item in items]
    return {"call": call, "items": answers, **_peaks()}


def _again(
    plugin: Plugin, item: Mapping[str, Any], job: Callable[[Mapping[str, Any]], Job]
) -> dict[str, Any]:
    """The second try of a job that ran out of memory: in a smaller way, or not at all.

    What ran out in a call with others is run as it is when there is no smaller way: alone
    it may fit.
    """
    ran_out = item["ran_out"]
    try:
        smaller = _degraded(plugin, item["inputs"])
    except Exception as error:
        return failure(error, job(item))
    if smaller is None:
        return _alone(plugin, job(item)) if ran_out["together"] else _same_again(item)
    context = job({**item, "inputs": smaller})
    context.warn("degraded", "It ran out of memory and was run again in a way that needs less.")
    return _alone(plugin, context)


def _degraded(plugin: Plugin, inputs: Inputs) -> Inputs | None:
    return plugin.degrade(inputs) if isinstance(plugin, Degrades) else None


def _same_again(item: Mapping[str, Any]) -> dict[str, Any]:
    told = {"code": item["ran_out"]["code"], "message": item["ran_out"]["message"]}
    return {"job": item["job"], "error": told, "warnings": []}


def _together(plugin: Batches, jobs: Sequence[Job]) -> list[dict[str, Any]] | None:
    """Answers of one batched call; None when it failed as a whole.

    The caller then runs the items one by one: only the guilty one fails, and what was too
    much memory together may fit alone.
    """
    try:
        results = plugin.infer_batch([(job.inputs, job) for job in jobs])
        if len(results) != len(jobs):
            raise OutputInvalid(f"{len(results)} answers for a batch of {len(jobs)}")
    except Exception as error:
        _say(f"a batch of {len(jobs)} failed, its items are run one by one: {error}")
        return None
    return [answer(result, job) for result, job in zip(results, jobs, strict=True)]


def _alone(plugin: Plugin, job: Job) -> dict[str, Any]:
    try:
        return answer(plugin.infer(job.inputs, job), job)
    except Exception as error:
        return failure(error, job)


def _die_with(keeper: int) -> None:
    """Ask for SIGKILL when the keeper dies. Set by the process itself, because a change of
    user would clear it, and checked, because the keeper may be dead already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != keeper:
        os._exit(1)


def _limit(limits: Mapping[str, int | None]) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = limits["open_files"] or hard
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    space = limits["address_space_bytes"]
    if space is not None:
        resource.setrlimit(resource.RLIMIT_AS, (space, space))


def _limit_torch(threads: int) -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


def _moved(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, LOWEST_WIRE_FD)
    os.close(descriptor)
    return int(moved)


def _peaks() -> dict[str, int]:
    """The most memory this process has held so far, of the host and of its cards."""
    return {
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "peak_gpu_bytes": _peak_gpu(),
    }


def _peak_gpu() -> int:
    """What torch reserved. A plugin without it is measured by the worker alone."""
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return 0
        cards = range(torch.cuda.device_count())
        return sum(int(torch.cuda.max_memory_reserved(card)) for card in cards)
    except Exception:
        return 0  # whatever a plugin does to torch: its answer is not lost for a figure


def _leave(code: int, message: str = "") -> NoReturn:
    """End at once. The ordinary way would wait for threads that the plugin left running."""
    with contextlib.suppress(Exception):  # the plugin may have closed or replaced them
        _say(message)
        sys.stdout.flush()
    os._exit(code)


def _say(message: str) -> None:
    if message:
        sys.stderr.write(f"{message}\n")


def _exit_code(leaving: BaseException) -> int:
    code = getattr(leaving, "code", 130)
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (SystemExit, KeyboardInterrupt) as leaving:
        _leave(_exit_code(leaving))
    except BaseException:
        _leave(1, traceback.format_exc())
