"""Starts programs in order, restarts those that die, stops them in reverse order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from foldline.ops.programs import Child, Program

BEAT_S = 0.1
QUICK_S = 30  # a death sooner than this after the start counts towards giving up
QUICK_DEATHS = 5
LONGEST_PAUSE_S = 30


class SupervisorError(Exception):
    """A program could not be kept running; the message says what happened to it."""

    def __init__(self, program: str, what: str) -> None:
        super().__init__(f"{program} {what}")
        self.program = program


@dataclass(kw_only=True)
class Place:
    """One program's place: the process in it now, and how often it died lately."""

    program: Program
    child: Child | None = None
    quick_deaths: int = 0
    start_at: float = 0.0
    announced: bool = False


class Supervisor:
    """Keeps programs running. Not thread-safe: start, beat and stop from one thread.

    `say` gets sentences for the person in front; `write` gets a program's name and a line.
    `pause_s`: seconds before a program that died soon is started again, doubled each time.
    """

    def __init__(
        self,
        *,
        say: Callable[[str], None],
        write: Callable[[str, str], None],
        pause_s: float = 1.0,
    ) -> None:
        self.say = say
        self.write = write
        self.pause_s = pause_s
        self.places: dict[str, Place] = {}

    def add(self, program: Program) -> None:
        """Start a program; `beat` notices when it is ready."""
        place = Place(program=program)
        self.places[program.name] = place
        place.child = Child(program, write=self.write)

    def start(self, program: Program) -> None:
        """Start a program and wait until it is ready. Raises SupervisorError."""
        self.add(program)
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until every program is ready. Raises SupervisorError when one is late or ends."""
        while waiting := [place for place in self.places.values() if not self._is_ready(place)]:
            for place in waiting:
                self._check_starting(place)
            time.sleep(BEAT_S)

    def _is_ready(self, place: Place) -> bool:
        ready = place.child is not None and place.child.look()
        if ready and place.child is not None and not place.announced:
            place.announced = True
            self.say(f"{place.program.name} is ready after {place.child.age_s:.1f} s")
        return ready

    def _check_starting(self, place: Place) -> None:
        program, child = place.program, place.child
        if child is None or child.status is not None:
            status = describe(child.status if child else None)
            raise SupervisorError(program.name, f"{status} before it was ready")
        if child.age_s > program.ready_within_s:
            raise SupervisorError(
                program.name, f"was not ready within {program.ready_within_s:.0f} s"
            )

    def beat(self) -> None:
        """Notice deaths and readiness; restart what is due. Raises SupervisorError."""
        for place in self.places.values():
            if place.child is None:
                self._restart_when_due(place)
            elif place.child.status is not None:
                self._bury(place, place.child)
            else:
                self._is_ready(place)

    def _bury(self, place: Place, child: Child) -> None:
        child.end_now()  # its own children, if it left any
        name = place.program.name
        place.quick_deaths = place.quick_deaths + 1 if child.age_s < QUICK_S else 0
        if place.quick_deaths >= QUICK_DEATHS:
            raise SupervisorError(name, f"{describe(child.status)} {QUICK_DEATHS} times in a row")
        pause = self._pause_after(place.quick_deaths)
        self.say(f"{name} {describe(child.status)}; it starts again in {pause:.0f} s")
        place.child, place.announced = None, False
        place.start_at = time.monotonic() + pause

    def _pause_after(self, deaths: int) -> float:
        return min(self.pause_s * 2.0 ** (deaths - 1), LONGEST_PAUSE_S) if deaths else 0.0

    def _restart_when_due(self, place: Place) -> None:
        if time.monotonic() >= place.start_at:
            place.child = Child(place.program, write=self.write)

    def stop(self, *, urgent: Callable[[], bool]) -> None:
        """End every program, the last one started first. Once `urgent`, kill what is left."""
        for name, place in reversed(self.places.items()):
            if place.child is None:
                continue
            child, began = place.child, time.monotonic()
            child.ask_to_end()
            while child.status is None and not urgent():
                if time.monotonic() - began > place.program.grace_s:
                    self.say(f"{name} did not end within {place.program.grace_s:.0f} s: killed")
                    break
                time.sleep(BEAT_S / 2)
            child.end_now()
        self.places.clear()


def describe(status: int | None) -> str:
    """An exit status in words."""
    if status is not None and status < 0:
        return f"was ended by signal {-status}"
    return f"ended with status {status}"
