"""The SDK's own client, with the Tasks extension, against a house."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any, Literal

import httpx2
import mcp_types as types
import orjson
from mcp import Client
from mcp.client import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client

from tests.house import House

TASKS = "io.modelcontextprotocol/tasks"
VERSION = "2026-07-28"


class TaskHandle(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class TaskState(types.Result):
    result_type: str = "complete"
    task_id: str = ""
    status: str = ""
    status_message: str | None = None
    poll_interval_ms: int | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _TaskId(types.RequestParams):
    task_id: str


class GetTask(types.Request[_TaskId, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskId
    name_param = "taskId"


class CancelTask(types.Request[_TaskId, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskId
    name_param = "taskId"


class UpdateTask(types.Request[_TaskId, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: _TaskId
    name_param = "taskId"


async def get_task(client: Client, task_id: str) -> TaskState:
    return await client.session.send_request(GetTask(params=_TaskId(task_id=task_id)), TaskState)


async def cancel_task(client: Client, task_id: str) -> types.Result:
    request = CancelTask(params=_TaskId(task_id=task_id))
    return await client.session.send_request(request, types.Result)


async def update_task(client: Client, task_id: str) -> types.Result:
    request = UpdateTask(params=_TaskId(task_id=task_id))
    return await client.session.send_request(request, types.Result)


async def until(client: Client, task_id: str, *statuses: str) -> TaskState:
    async with asyncio.timeout(60):
        while (state := await get_task(client, task_id)).status not in statuses:
            await asyncio.sleep(0.1)
    return state


class TaskExtension(ClientExtension):
    """Follows a task to its result, as a client of the extension does."""

    identifier = TASKS

    def __init__(self) -> None:
        self.polled: list[TaskState] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=TaskHandle, resolve=self._resolve)]

    async def _resolve(self, handle: TaskHandle, context: ClaimContext) -> types.CallToolResult:
        request = GetTask(params=_TaskId(task_id=handle.task_id))
        while True:
            state = await context.session.send_request(request, TaskState)
            self.polled.append(state)
            if state.status == "completed":
                return types.CallToolResult.model_validate(state.result)
            assert state.status == "working", state
            await asyncio.sleep(0.2)


@asynccontextmanager
async def connected(
    house: House, *, port: int = 0, key: str = "", mode: str = "auto", tasks: bool = False
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key or house.key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=90) as http:
        url = f"http://127.0.0.1:{port or house.port}/mcp"
        extensions = [TaskExtension()] if tasks else []
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, extensions=extensions) as client:
            yield client


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def error(self) -> int:
        return int(self.body["error"]["code"])


@dataclass(kw_only=True)
class Raw:
    """Sends requests as nobody's client would."""

    house: House
    key: str = ""
    extensions: Mapping[str, Any] = field(default_factory=dict)

    def post(
        self, method: str, *, headers: Mapping[str, str | None] | None = None, **params: Any
    ) -> Answer:
        """A well-formed request of 2026-07-28; a header that is None is left out."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": dict(self.extensions)},
            **params.pop("_meta", {}),
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        name = params.get("name") or params.get("taskId")
        usual = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method, "Mcp-Name": name}
        return self.send(orjson.dumps(body), headers={**usual, **(headers or {})})

    def send(
        self,
        body: bytes,
        *,
        headers: Mapping[str, str | None],
        method: str = "POST",
        path: str = "",
    ) -> Answer:
        told = {
            "Authorization": f"Bearer {self.key or self.house.key}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **headers,
        }
        connection = HTTPConnection("127.0.0.1", self.house.port, timeout=90)
        try:
            connection.request(
                method,
                path or "/mcp",
                body=body,
                headers={name: value for name, value in told.items() if value is not None},
            )
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        is_json = "json" in (answer.headers["Content-Type"] or "") and content
        return Answer(
            status=answer.status,
            headers={name.lower(): value for name, value in answer.headers.items()},
            body=orjson.loads(content) if is_json else content,
        )
