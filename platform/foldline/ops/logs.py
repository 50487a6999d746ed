"""Logs as JSON lines: one object a line, without inputs and without keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

# Whatever slips into a message: an API key is never written out.
KEY = re.compile(r"\bfl_[a-z]+_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{20,}")

Event = MutableMapping[str, Any]


def hide_keys(_logger: object, _method: str, event: Event) -> Event:
    """Replace API keys inside any text of the line."""
    for name, value in event.items():
        if isinstance(value, str) and "fl_" in value:
            event[name] = KEY.sub("fl_…", value)
    return event


def formatter() -> structlog.stdlib.ProcessorFormatter:
    """The formatter that settings.LOGGING names; takes standard `logging` records."""
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        hide_keys,
    ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(default=_text),
        ],
    )


def _text(value: object) -> str | Mapping[str, Any]:
    return str(value)
