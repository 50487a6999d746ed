"""What an API server may answer instead of an answer, in words."""

from __future__ import annotations


class Fault(Exception):
    """A call that did not do what it was asked. Its text says why."""


class Unreachable(Fault):
    """No answer within the time limit: the server is down, slow or frozen."""


class TooMany(Fault):
    """The server asked for patience (429, or 503 with Retry-After); until then nobody asks it."""


class NotLeading(Fault):
    """Another scaler may lead by now, so nothing is written."""


class Refused(Fault):
    """The server said no."""

    def __init__(self, words: str, *, status: int) -> None:
        super().__init__(words)
        self.status = status


class Conflict(Refused):
    """409: somebody changed it since it was read, or it exists already."""


class Missing(Refused):
    """404."""


class Expired(Refused):
    """410: the list that was being read is too old to go on with."""


REFUSALS = {404: Missing, 409: Conflict, 410: Expired}
