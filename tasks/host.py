"""The plugin host: keeps one plugin process loaded, and asks it for answers.

Needs neither Django nor Celery. In a worker:

    host = PluginHost(spec)
    host.start()
    while not host.ready.wait(0.1): ...          # look at host.broken and at the stop flag
    answers = host.call(items, seconds_left=..., stop=..., progress=...)
    host.stop()                                  # no process of the plugin is left
"""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

from model_plugins.frames import FrameError
from tasks.autopsy import Death
from tasks.call import Call, CancelWanted
from tasks.channel import Closed
from tasks.messages import (
    Answer,
    DeadlinePassed,
    Item,
    Loaded,
    NotReady,
    OutputFile,
    PluginDied,
    PluginSpec,
    Progress,
    Saved,
    StartFailure,
    Stop,
    Stopped,
)
from tasks.plugin_frames import WrongJobs, infer_frame, refused
from tasks.process import KILL_PATIENCE_S, PluginProcess
from tasks.start import StartFailed, failure, load, spawn

__all__ = [
    "Answer",
    "DeadlinePassed",
    "Item",
    "Loaded",
    "NotReady",
    "OutputFile",
    "PluginDied",
    "PluginHost",
    "PluginSpec",
    "Progress",
    "Saved",
    "StartFailure",
    "Stop",
    "Stopped",
    "make_undumpable",
]

logger = logging.getLogger("foldline.host")

PR_SET_DUMPABLE = 4
GRACE_S = 2.0
"""For each step of a cancel: asking, SIGTERM. SIGKILL follows."""
MAX_BACK_OFF_S = 30.0
FAILED_RESTARTS = 3


def make_undumpable() -> None:
    """Close this process's environment and memory to other processes of the same user."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


class PluginHost:
    """One plugin, started again whenever it dies, by one thread that lives as long as the host.

    ready           set while a loaded plugin waits or works; cleared before anyone can be
                    told that it is gone
    loaded          the last finished start
    broken          why the very first start failed; then the host has given up
    failures        starts that failed in a row since the last finished one
    last_failure    the newest of them, kept
    peak_rss_bytes  as the plugin process told it last
    peak_gpu_bytes  the most torch reserved on its card in any life
    """

    def __init__(self, spec: PluginSpec) -> None:
        self.ready = threading.Event()
        self.loaded: Loaded | None = None
        self.broken: StartFailure | None = None
        self.failures = 0
        self.last_failure: StartFailure | None = None
        self.peak_rss_bytes = 0
        self.peak_gpu_bytes = 0
        self._spec = spec
        self._stopping = threading.Event()
        self._state = threading.Lock()  # guards _process together with ready
        self._calling = threading.Lock()  # one call at a time; pipes stay open during one
        self._process: PluginProcess | None = None
        self._calls = 0
        self._unrest = 0  # deaths of its own and failed starts since the last answer
        self._thread = threading.Thread(target=self._live, name="plugin-host", daemon=True)

    @property
    def gave_up(self) -> StartFailure | None:
        """Why a plugin that once was loaded does not come up again, several times in a row.
        The host goes on trying; a worker had better leave."""
        return self.last_failure if self.failures >= FAILED_RESTARTS else None

    def start(self) -> None:
        """Begin to load, once; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End everything. A call in progress raises Stopped."""
        self._stopping.set()
        for end in (PluginProcess.kill, PluginProcess.kill_keeper):
            with self._state:
                self.ready.clear()
                if self._process is not None:
                    end(self._process)
            if self._thread.is_alive():
                self._thread.join(KILL_PATIENCE_S)

    def call(
        self,
        items: Sequence[Item],
        *,
        seconds_left: Callable[[], float],
        stop: Callable[[], Stop | None],
        progress: Callable[[str, Progress], None],
        saved: Callable[[Saved], None] = lambda saved: None,
    ) -> list[Answer]:
        """One answer per item, in order.

        The callables are asked from this thread, at least every 50 ms, and must not
        block. Raises NotReady (nothing was started), PluginDied, DeadlinePassed, or Stopped.
        On a cancel the plugin is asked to stop and keeps its weights loaded when it does so
        within GRACE_S; otherwise SIGTERM and SIGKILL follow. In every other case of an
        exception but NotReady all its processes are gone and it is being started again.
        """
        with self._calling:
            process = self._loaded_process()
            self._calls += 1
            try:
                frame = infer_frame(self._calls, items)
            except FrameError as error:
                return [refused(item.job, str(error), code="invalid_input") for item in items]
            call = Call(
                process.channel,
                number=self._calls,
                items=items,
                seconds_left=seconds_left,
                stop=stop,
                progress=progress,
                saved=saved,
            )
            return self._carry_out(call, frame, process)

    def _carry_out(self, call: Call, frame: bytes, process: PluginProcess) -> list[Answer]:
        try:
            process.oom_kills.mark()
            call.ask(frame)
            answers = call.answers()
        except CancelWanted:
            if not call.wind_down(GRACE_S):
                self._end_gently(process)
            raise Stopped("cancel") from None
        except Closed:
            self._explain_end(process)
        except WrongJobs as error:
            self._end(process)
            raise PluginDied(
                "model_output_invalid", f"The model answered wrongly: {error}."
            ) from error
        except FrameError as error:
            self._end(process)
            message = f"The model's process broke the protocol: {error}."
            raise PluginDied("protocol_broken", message) from error
        except BaseException:
            self._end(process)
            raise
        self.peak_rss_bytes = max(self.peak_rss_bytes, call.peak_rss_bytes)
        self.peak_gpu_bytes = max(self.peak_gpu_bytes, call.peak_gpu_bytes)
        self._unrest = 0
        return answers

    def _loaded_process(self) -> PluginProcess:
        with self._state:
            if self._process is None or not self.ready.is_set():
                raise NotReady
            return self._process

    def _explain_end(self, process: PluginProcess) -> NoReturn:
        """Raise for a process that closed its pipe during a call."""
        self.ready.clear()
        death = process.wait_after_closing()
        if self._stopping.is_set():
            raise Stopped("stopping") from None
        raise PluginDied(death.code, death.message) from None

    def _end_gently(self, process: PluginProcess) -> None:
        self.ready.clear()
        process.terminate()
        process.exits_within(GRACE_S)
        process.kill_and_wait()

    def _end(self, process: PluginProcess) -> None:
        self.ready.clear()
        process.kill_and_wait()

    def _live(self) -> None:
        while not self._stopping.is_set():
            rest = self._one_life()
            if self.loaded is None:
                self.broken = self.last_failure
                return
            self._stopping.wait(rest)

    def _one_life(self) -> float:
        """Spawn, load, wait for the end; the seconds to rest before the next life."""
        process = None
        try:
            process = spawn(self._spec)
            self._adopt(process)
            self._announce(load(process, self._spec))
        except StartFailed as error:
            self._note_failure(error, process)
        if process is not None and self._bury(process).ordered and not self.failures:
            return 0.0
        self._unrest += 1
        return float(min(MAX_BACK_OFF_S, 0.1 * 2 ** min(self._unrest - 1, 10)))

    def _adopt(self, process: PluginProcess) -> None:
        with self._state:
            self._process = process
            if self._stopping.is_set():
                process.kill()

    def _announce(self, loaded: Loaded) -> None:
        with self._state:
            if self._stopping.is_set():
                return
            self.loaded = loaded
            self.failures = 0
            self.peak_rss_bytes = loaded.peak_rss_bytes
            self.peak_gpu_bytes = max(self.peak_gpu_bytes, loaded.peak_gpu_bytes)
            self.ready.set()
        logger.info("plugin %s loaded in %.2f s", self._spec.name, loaded.seconds)

    def _note_failure(self, error: StartFailed, process: PluginProcess | None) -> None:
        if process is not None:
            process.kill()
            process.wait()
        if self._stopping.is_set():
            return
        self.failures += 1
        self.last_failure = failure(error, process)
        logger.error("plugin %s did not start: %s: %s", self._spec.name, error.code, error)

    def _bury(self, process: PluginProcess) -> Death:
        death = process.wait()
        with self._state:
            self.ready.clear()
            self._process = None
        with self._calling:
            process.close()
        if not death.ordered:
            logger.error("plugin %s: %s: %s", self._spec.name, death.code, death.message)
        return death
