"""Times to the second, as the logs and the API tell them, and in which zone."""

from __future__ import annotations

# The space is never broken; the letters of the zone stand for themselves.
DATETIME_FORMAT = "Y-m-d H:i:s\xa0\\U\\T\\C"
