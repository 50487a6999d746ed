"""FlashABB: antibody variable domains from sequence."""

from __future__ import annotations
