"""Server-sent events: bytes into events, and where to go on after the line was cut."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foldline.client.asks import Ask, Flow, Pause, Reply, place
from foldline.client.calling import Calling, read_body
from foldline.client.errors import BadAnswer, Refused
from foldline.client.shapes import ENDED, Job, Problem
from foldline.client.watching import APART_S

SILENCE_S = 60.0
"""A stream that says nothing for so long is dead: the server sends a comment more often."""
MOST_EVENT_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to a job. `id` resumes after it; `kind` is the event's name."""

    id: str
    kind: str
    data: Mapping[str, Any]


@dataclass(kw_only=True)
class Reader:
    """An event stream (WHATWG HTML 9.2.6), fed with bytes as they come."""

    last_id: str = ""
    _rest: bytes = b""
    _fields: dict[str, str] = field(default_factory=dict)
    _data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that are complete with this. Raises BadAnswer."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > MOST_EVENT_BYTES:
            raise BadAnswer("An event is larger than any of Foldline's.")
        told = [self._line(line.rstrip(b"\r").decode(errors="replace")) for line in lines]
        return [event for event in told if event is not None]

    def cut(self) -> None:
        """The line was cut: what was half there is told again."""
        self._rest, self._fields, self._data = b"", {}, []

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._end()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name in ("event", "id"):
            self._fields[name] = value
        return None

    def _end(self) -> Event | None:
        fields, text = self._fields, "\n".join(self._data)
        self._fields, self._data = {}, []
        self.last_id = fields.get("id", self.last_id)
        if not text:
            return None
        try:
            data = json.loads(text)
        except ValueError:
            raise BadAnswer("An event holds no JSON.") from None
        data = data if isinstance(data, dict) else {"value": data}
        return Event(id=self.last_id, kind=fields.get("event", "message"), data=data)


@dataclass(kw_only=True)
class Listening:
    """The events of one job across as many connections as it takes."""

    calling: Calling
    job_id: str
    reader: Reader
    _heard: bool = False
    _ended: bool = False

    def connect(self) -> Flow[Reply]:
        """A reply with its `stream` open; `heard` takes the bytes that come."""
        self.reader.cut()
        self._heard = False
        headers = {"Accept": "text/event-stream"}
        if self.reader.last_id:
            headers["Last-Event-ID"] = self.reader.last_id
        path = place("jobs", self.job_id, "events")
        ask = Ask(method="GET", path=path, headers=headers, stream=True, silence_s=SILENCE_S)
        return self.calling.call(ask)

    def heard(self, chunk: bytes) -> list[Event]:
        """The events in it. Raises Refused for one that says why there will be no more."""
        events = []
        for event in self.reader.feed(chunk):
            if event.kind == "error":
                raise Refused(read_body(Problem, event.data))
            events.append(event)
        self._heard = self._heard or bool(events)
        self._ended = self._ended or any(event.data.get("state") in ENDED for event in events)
        return events

    def over(self) -> Flow[bool]:
        """After the stream broke off: whether there is nothing more to hear."""
        if not self._ended and not self._heard:
            ask = Ask(method="GET", path=place("jobs", self.job_id))
            self._ended = (yield from self.calling.told(Job, ask)).ended
        if not self._ended:
            yield Pause(seconds=APART_S)
        return self._ended
