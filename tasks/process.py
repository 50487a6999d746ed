"""One life of a plugin process: how it is started, ended and cleared away."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from tasks.autopsy import Death, OomKills, closed_its_pipe, name_death
from tasks.channel import Channel
from tasks.messages import PluginSpec
from tasks.plugin_log import PluginLog

KEEPER = Path(__file__).with_name("keeper.py")
PASSED_ON = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MEMORY_LIMIT",
    *(f"CUDA_DEVICE_MEMORY_LIMIT_{card}" for card in range(16)),
    "CUDA_DEVICE_MEMORY_SHARED_CACHE",
    "CUDA_DEVICE_SM_LIMIT",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "LD_LIBRARY_PATH",
)
"""Named one by one: a pattern such as NVIDIA_* would also let an API key through."""
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
OWN_END_S = 5.0
"""From a closed pipe to the process's own end, on a busy machine. A kill before that would hide
its reason."""
KILL_PATIENCE_S = 5.0


class PluginProcess:
    """A keeper with its plugin, the pipes to both and a folder of their own.

    Its methods may be called from any thread until `close`.
    """

    def __init__(self, spec: PluginSpec) -> None:
        self._death: Death | None = None
        self._ordered = False
        self._lock = threading.Lock()
        self._home = Path(tempfile.mkdtemp(prefix=f"plugin-{spec.name}-", dir=spec.scratch))
        plugin_reads, self._writes = os.pipe()
        self._reads, plugin_writes = os.pipe()
        lifeline, self._lifeline = os.pipe()
        log_reads, log_writes = os.pipe()
        theirs = (plugin_reads, plugin_writes, lifeline)
        runner = [str(spec.python), "-m", "model_plugins.runner", str(theirs[0]), str(theirs[1])]
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-S", "-I", str(KEEPER), str(lifeline), "--", *runner],
                stdin=subprocess.DEVNULL,
                stdout=log_writes,
                stderr=log_writes,
                cwd=self._home,
                env=_environment(spec, self._home),
                pass_fds=theirs,
                start_new_session=True,
            )
        except BaseException:
            _close(self._writes, self._reads, self._lifeline, log_reads)
            shutil.rmtree(self._home, ignore_errors=True)
            raise
        finally:
            _close(*theirs, log_writes)
        self.pid = self._keeper.pid
        self._pidfd = os.pidfd_open(self.pid)
        self.channel = Channel(reads=self._reads, writes=self._writes, watch=self._pidfd)
        self.log = PluginLog(log_reads, name=spec.name)
        self.oom_kills = OomKills(self.pid)

    def terminate(self) -> None:
        """SIGTERM to the plugin's process group."""
        with self._lock:
            if self._lifeline >= 0:
                self._ordered = True
                with contextlib.suppress(BrokenPipeError):
                    os.write(self._lifeline, b"T")

    def kill(self) -> None:
        """SIGKILL to every process of the plugin; returns at once."""
        with self._lock:
            if self._lifeline < 0:
                return
            self._ordered = self._ordered or not self.exits_within(0)
            os.close(self._lifeline)
            self._lifeline = -1
            # A plugin of the same user may have stopped its keeper.
            self._signal_keeper(signal.SIGCONT)

    def kill_keeper(self) -> None:
        """The last resort for a keeper that does not leave; its plugin dies with it."""
        self._signal_keeper(signal.SIGKILL)

    def kill_and_wait(self) -> Death:
        """SIGKILL everything and see it gone."""
        self.kill()
        if not self.exits_within(KILL_PATIENCE_S):
            self.kill_keeper()
        return self.wait()

    def exits_within(self, seconds: float) -> bool:
        """Whether all is over by then; waits no longer than that."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def wait(self) -> Death:
        """Block until no process of the plugin is left."""
        returncode = self._keeper.wait()
        with self._lock:
            if self._death is None:
                rose = self.oom_kills.rose()
                self._death = name_death(returncode, ordered=self._ordered, out_of_memory=rose)
            return self._death

    def wait_after_closing(self) -> Death:
        """The end of a process that closed its pipe: its own within a moment, or by force."""
        if self.exits_within(OWN_END_S):
            return self.wait()
        death = self.kill_and_wait()
        return closed_its_pipe(death) if death.returncode == -signal.SIGKILL else death

    def close(self) -> None:
        """Give the descriptors and the folder back; only after `wait`, and when no one calls."""
        with self._lock:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1
        _close(self._reads, self._writes, self._pidfd)
        shutil.rmtree(self._home, ignore_errors=True)

    def _signal_keeper(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)


def _environment(spec: PluginSpec, home: Path) -> Mapping[str, str]:
    """All that a plugin sees of the environment: no credential, no setting of the platform."""
    return {
        # NVML counts cards so, and torch's first card must be the one that is measured.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        **{name: str(spec.threads) for name in THREAD_VARIABLES},
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": str(spec.import_root),
        "PYTHONSAFEPATH": "1",
        "HF_HUB_OFFLINE": "1",
        **spec.environment,
    }


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
