"""The life of a worker process: load, then consume, then drain, in that order."""

from __future__ import annotations

import logging
import os
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

from celery import bootsteps
from celery.worker import state as celery_state
from django.db import DatabaseError, connection

from foldline.fleet import services as fleet
from foldline.fleet.services import Assignment
from foldline.jobs import demand
from foldline.jobs.checkpoints import discard_ended
from foldline.jobs.pauses import may_start
from foldline.jobs.tickets import queue_name
from tasks.app import app, consume
from tasks.cards import visible_card
from tasks.drain import Leaver, Watchdog, draining
from tasks.gpu_peak import GpuPeak
from tasks.heartbeat import Heartbeat
from tasks.host import PluginHost, PluginSpec
from tasks.serve import EX_TEMPFAIL, Desk, occupy

log = logging.getLogger(__name__)

EX_CONFIG = 78
PERMISSION_S = 1.0


class Launch:
    """One worker: its row, its heartbeat, its plugin and its Celery consumer."""

    def __init__(
        self,
        assignment: Assignment,
        spec: PluginSpec,
        *,
        name: str,
        share: float = 1.0,
        once: bool = False,
    ) -> None:
        self._assignment = assignment
        self._name = name
        self._host = PluginHost(spec)
        card = visible_card()
        self._heartbeat = Heartbeat(
            fleet.register(
                name=name,
                revision_id=assignment.revision_id,
                node=socket.gethostname(),
                pid=os.getpid(),
                card=card.uuid if card else "",
                card_bytes=card.memory_bytes if card else 0,
                share=share,
            )
        )
        self._gpu_peak = GpuPeak(tell=lambda held: self._heartbeat.say(peak_gpu_bytes=held))
        if card:
            self._gpu_peak.watch(card)
        discard_ended()
        connection.close()
        self._desk = Desk(
            assignment=assignment,
            name=name,
            host=self._host,
            heartbeat=self._heartbeat,
            gpu_peak=self._gpu_peak,
            scratch=spec.scratch,
            once=once,
        )
        wanted = partial(demand.has_startable, assignment.revision_id)
        self._leaver = Leaver(busy=self._desk.busy.is_set, wanted=wanted)
        self._exit_code = 0

    def run(self) -> int:
        """Load the plugin and serve until told to stop; gives the exit code."""
        occupy(self._desk)
        self._heartbeat.start()
        watchdog = Watchdog(
            busy=self._desk.busy.is_set, begun=self._desk.say_state, leave=self._host.stop
        )
        watchdog.start()
        if self._desk.once:
            self._leaver.start()
        worker = self._celery_worker()
        try:
            worker.start()
        except SystemExit as leaving:
            self._exit_code = leaving.code if isinstance(leaving.code, int) else 1
        finally:
            watchdog.ended.set()
            self._leaver.ended.set()
            # Only now: until Celery's pool has drained, a job may still be computing.
            self._host.stop()
            self._heartbeat.end(state="gone", current_job=None)
        return self._exit_code or worker.exitcode or 0

    def _celery_worker(self) -> Any:
        queue = queue_name(self._assignment.model, number=self._assignment.number)
        consume(
            queue,
            run_timeout_s=self._assignment.run_timeout_s,
            load_timeout_s=self._assignment.load_timeout_s,
        )
        load = type("LoadPlugin", (LoadPlugin,), {"launch": self})
        app.steps["worker"].add(load)
        return app.Worker(
            hostname=self._name,
            queues=[queue],
            loglevel="INFO",
            without_gossip=True,
            without_mingle=True,
            task_events=True,
        )

    def _wait_for_permission(self) -> None:
        """While a model is crash looping, one worker at a time may try to load it."""
        if self._may_start():
            return
        log.warning("the model is crash looping: waiting for a trial")
        while not self._may_start():
            time.sleep(PERMISSION_S)
            if draining():
                celery_state.maybe_shutdown()

    def _may_start(self) -> bool:
        try:
            return may_start(self._assignment.revision_id)
        except DatabaseError as error:
            log.warning("whether it may start is not known", extra={"reason": str(error)})
            return False
        finally:
            connection.close()

    def load(self) -> None:
        """Start the plugin and wait until it is loaded, told to stop, or broken."""
        started_s = _process_age_s()
        self._wait_for_permission()
        self._heartbeat.say(state="loading")
        self._host.start()
        while not self._host.ready.wait(0.1):
            if (broken := self._host.broken) is not None:
                log.error("the model could not be loaded", extra={"reason": broken.message})
                self._heartbeat.say(failure={"code": broken.code, "message": broken.message})
                raise SystemExit(EX_TEMPFAIL)
            if draining():
                celery_state.maybe_shutdown()
        loaded = self._host.loaded
        phases = {**loaded.phases, "total": loaded.seconds} if loaded else {}
        phases["start_worker"] = round(started_s, 4)
        self._heartbeat.say(
            state="ready", load_seconds=phases, peak_memory_bytes=self._host.peak_rss_bytes
        )


def _process_age_s() -> float:
    """Seconds since this process was begun: the interpreter, its imports, the worker's row."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    began_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began_s


class LoadPlugin(bootsteps.StartStopStep):
    """Loads between Pool and Consumer, so that no broker connection exists before the plugin
    is loaded and a worker that Celery calls ready is one that can answer.

    It has no `stop`: steps stop in reverse order, so it would end the plugin before the pool
    has drained, and with it the running job.
    """

    requires = ("celery.worker.components:Pool",)
    launch: Launch

    def __init__(self, parent: Any, **_options: Any) -> None:
        """Celery passes its worker; everything needed is on `launch`."""

    def start(self, parent: Any) -> None:
        self.launch.load()
