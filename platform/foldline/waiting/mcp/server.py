"""The protocol, as the SDK speaks it: which request does what."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any, NoReturn

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import require_client_extension
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value

from foldline.catalog.tool_helpers import HELPERS
from foldline.catalog.tool_schemas import MOST_WAIT_S
from foldline.waiting.bridge import Receive, Scope, Send
from foldline.waiting.mcp.tasks import TASKS, task
from foldline.waiting.mcp.tools import call_helper, call_model, ended_result
from foldline.waiting.mcp.visit import OPEN, VISIT, Note, Refused, Visit
from foldline.waiting.mcp.words import of_tools, refusal, standing

Context = ServerRequestContext[Any, Any]
Body = dict[str, Any]

KEPT_MS = 60_000
"""How long a client may keep the list of tools."""

IDEMPOTENCY_KEY = "foldline/idempotencyKey"

_UNKNOWN_TOOL = "Unknown tool. List the tools again: models come and go."

INSTRUCTIONS = (
    "Each model is a tool; a call becomes a job. A call that is not answered in time tells its"
    f" job_id: call wait_for_job with it (at most {MOST_WAIT_S} s at a time) until it has ended,"
    " and never repeat the call instead. To run many calls at once, give each `_call.wait_s` 0 and"
    " wait for all jobs together. An error says what to change. A file in a result is an artifact:"
    " pass its id to the next tool, without downloading it."
)


class TaskParams(types.RequestParams):
    task_id: str


class TaskUpdateParams(TaskParams):
    input_responses: dict[str, Any] = {}


class Protocol:
    """The SDK's server behind two transports: one answers with JSON, one can stream progress."""

    def __init__(self) -> None:
        server = server_of()
        self._plain, self._streaming = (
            StreamableHTTPSessionManager(server, json_response=plain, stateless=True)
            for plain in (True, False)
        )
        self._closing = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @classmethod
    async def opened(cls) -> Protocol:
        protocol = cls()
        ready = asyncio.Event()
        protocol._running = asyncio.create_task(protocol._run(ready))
        await ready.wait()
        return protocol

    async def _run(self, ready: asyncio.Event) -> None:
        """A task of its own: a task group ends in the task that it began in."""
        async with AsyncExitStack() as stack:
            for manager in (self._plain, self._streaming):
                await stack.enter_async_context(manager.run())
            ready.set()
            await self._closing.wait()

    async def close(self) -> None:
        self._closing.set()
        if self._running is not None:
            await self._running

    async def serve(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Answer one request, whose `body` was read before and comes again from `receive`."""
        manager = self._streaming if _wants_progress(scope, body) else self._plain
        await manager.handle_request(scope, receive, send)


def server_of() -> Server[Any]:
    server: Server[Any] = Server(
        "foldline",
        version="1",
        title="Foldline",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,  # type: ignore[arg-type]  # a dict serves as a result, too
        on_call_tool=call_tool,  # type: ignore[arg-type]  # as above
        # No schema of ours asks for values in headers; else the SDK would list all tools
        # before each call to find out.
        get_tool_input_schema=lambda _name: None,
    )
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", TaskParams, get_task)
    server.add_request_handler("tasks/cancel", TaskParams, cancel_task)
    server.add_request_handler("tasks/update", TaskUpdateParams, update_task)
    return server


async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> Body:
    if params is not None and params.cursor is not None:
        raise MCPError(code=types.INVALID_PARAMS, message="Unknown cursor")
    visit = _visit(context)
    try:
        visit.admit()
    except Refused as refused:
        _fail(refused)
    kept = {"ttlMs": KEPT_MS, "cacheScope": "private"}
    return {"resultType": "complete", "tools": list(visit.tools), **kept}


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Body:
    """A refusal is a result: an agent reads it and can repair its call."""
    visit, arguments = _visit(context), params.arguments or {}
    try:
        visit.admit()
        if params.name in HELPERS:
            return await call_helper(visit, params.name, arguments, note=_noting(context))
        return await call_model(
            visit,
            params.name,
            arguments,
            key=(params.meta or {}).get(IDEMPOTENCY_KEY),
            as_task=_has_tasks(context),
            note=_noting(context),
        )
    except Refused as refused:
        if refused.problem["code"] == "model_not_found" and params.name not in HELPERS:
            raise MCPError(code=types.INVALID_PARAMS, message=_UNKNOWN_TOOL) from None
        return refusal(refused.problem)


async def get_task(context: Context, params: TaskParams) -> Body:
    job = await _job_of(context, params)
    told: Body = {"resultType": "complete", **task(job)}
    if told["status"] == "completed":
        try:
            told["result"] = await ended_result(_visit(context), job)
        except Refused as refused:
            _fail(refused)
    return told


async def cancel_task(context: Context, params: TaskParams) -> Body:
    """Asks for it; the task is cancelled once its worker has stopped."""
    job = await _job_of(context, params)
    if job["state"] in OPEN:
        try:
            await _visit(context).cancel(params.task_id)
        except Refused as refused:
            _fail(refused)
    return {"resultType": "complete"}


async def update_task(context: Context, params: TaskUpdateParams) -> Body:
    """No tool of ours asks anything back, so there is nothing to do with an answer."""
    await _job_of(context, params)
    return {"resultType": "complete"}


async def _job_of(context: Context, params: TaskParams) -> Body:
    """The job of a task of the caller's. One that is none, and one of others, are unknown."""
    require_client_extension(context, TASKS)
    visit = _visit(context)
    headers = dict(visit.scope["headers"])
    named = headers.get(MCP_NAME_HEADER.encode(), b"").decode("latin-1")
    if decode_header_value(named) != params.task_id:
        raise MCPError(
            code=types.HEADER_MISMATCH,
            message=f"{MCP_NAME_HEADER} header does not match the parameter 'taskId'",
        )
    try:
        visit.admit()
        return await visit.job(params.task_id)
    except Refused as refused:
        _fail(refused)


def _fail(refused: Refused) -> NoReturn:
    """A refusal where the protocol has no room for a result."""
    if refused.status == 404:
        raise MCPError(code=types.INVALID_PARAMS, message="Task not found") from None
    told = of_tools(refused.problem)
    raise MCPError(code=types.INTERNAL_ERROR, message=told["detail"], data=told) from None


def _visit(context: Context) -> Visit:
    request: Any = context.request
    visit: Visit = request.scope[VISIT]
    return visit


def _has_tasks(context: Context) -> bool:
    try:
        require_client_extension(context, TASKS)
    except MCPError:
        return False
    return True


def _noting(context: Context) -> Note | None:
    """Tells a client that waits how its job stands; None for one that did not ask to know."""
    if "progress_token" not in (context.meta or {}):
        return None
    began = asyncio.get_running_loop().time()

    async def note(job: Body) -> None:
        waited_s = asyncio.get_running_loop().time() - began
        await context.session.report_progress(round(waited_s, 1), None, standing(job))

    return note


def _wants_progress(scope: Scope, body: bytes) -> bool:
    """Whether the request names a progress token and its client reads a stream. In doubt the
    streaming transport answers, which without news is JSON, too."""
    if b'"progressToken"' not in body:
        return False
    return any(n == b"accept" and b"text/event-stream" in v for n, v in scope["headers"])
