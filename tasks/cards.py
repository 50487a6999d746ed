"""The card this worker computes on, if there is one."""

from __future__ import annotations

from dataclasses import dataclass

import pynvml


@dataclass(frozen=True, kw_only=True)
class Card:
    """What the driver says of the card; `device` is torch's name for it."""

    uuid: str
    device: str = "cuda:0"


def visible_card() -> Card | None:
    """The first card the driver shows to this process; None without a driver or card."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        if not pynvml.nvmlDeviceGetCount():
            return None
        return Card(uuid=str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0))))
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
