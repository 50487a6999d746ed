"""MCP at `/mcp`: every live model is a tool.

The protocol is the SDK's; every effect is a request to Django with the caller's own key, so
that scopes, quotas, idempotency, audit and errors are those of the REST API.
"""

from __future__ import annotations

from foldline.waiting.mcp.entrance import Entrance as app

__all__ = ["app"]
