"""MCP at `/mcp`: the SDK's own client against real gateways, a worker and a sweeper."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any
from uuid import uuid4

import httpx
import pytest
from mcp.shared.exceptions import MCPError

from foldline.catalog.tool_schemas import MOST_WAIT_S, USUAL_WAIT_S
from tests.foldline.waiting.mcp_client import (
    TASKS,
    Raw,
    cancel_task,
    connected,
    get_task,
    until,
    update_task,
)
from tests.house import House, built
from tests.redis_server import free_port, running_redis
from tests.worker_process import wait_until

pytestmark = pytest.mark.processes

LONG_S = 250
"""Of a job that runs until it is cancelled."""
HELPERS = ["wait_for_job", "get_job", "cancel_job", "estimate"]

_FURTHER_KEY = """
from foldline.tenants.services import ensure_tenant, issue_key
print(issue_key(ensure_tenant({slug!r}, name="Another"), name={name!r}, scopes={scopes!r})[1])
"""
_QUOTA = """
from foldline.tenants.models import Quota, Tenant
Quota.objects.create(tenant=Tenant.objects.get(slug={slug!r}), **{limits!r})
"""
_RETIRE = """
from foldline.catalog.models import Revision
from foldline.catalog.services import retire
retire(Revision.objects.get(model__name={name!r}))
"""
_PUBLISH = """
from foldline.catalog.models import Revision
from foldline.catalog.services import publish
publish(Revision.objects.get(model__name={name!r}), by=None)
"""
_REVOKE = """
from foldline.tenants.models import ApiKey
from foldline.tenants.services import revoke_key
revoke_key(ApiKey.objects.get(name={name!r}))
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with (
        running_redis(tmp_path_factory.mktemp("redis")) as redis,
        built(tmp_path_factory.mktemp("house"), redis=redis) as house,
    ):
        house.start_gateway()
        house.start_sweeper()
        house.start_worker()
        yield house


@pytest.fixture(scope="module")
def other_port(house: House) -> int:
    """Where a second gateway process of the same house answers."""
    port = free_port()
    house.start("gateway", "-m", "gunicorn", FOLDLINE_PORT=str(port))
    wait_until(lambda: _answers(port), what="a second gateway")
    return port


def _answers(port: int) -> bool:
    """Whether a gateway does, and not only its socket is there."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except ConnectionError:
        return False
    finally:
        connection.close()


@pytest.fixture(scope="module")
def other_key(house: House) -> str:
    """Of another tenant."""
    return issue(house, slug="strangers", name="strange")


def issue(
    house: House, *, name: str, slug: str = "lab", scopes: tuple[str, ...] = ("read", "submit")
) -> str:
    command = _FURTHER_KEY.format(slug=slug, name=name, scopes=scopes)
    return house.manage("shell", "--verbosity", "0", "--command", command).split()[-1]


def nap(seconds: float = 0, **more: Any) -> dict[str, Any]:
    """Arguments of a call that is equal to no other."""
    return {"seconds": seconds, "echo": uuid4().hex, **more}


def cancel(house: House, job_id: str) -> None:
    assert house.post(f"/v1/jobs/{job_id}/cancel", {}).status == 200


def newest(house: House) -> str:
    (job_id,) = house.query("select id from jobs_job order by created_at desc limit 1")[0]
    return str(job_id)


def structured(result: Any) -> dict[str, Any]:
    told: dict[str, Any] = result.structured_content
    return told


def test_every_live_model_is_a_tool_and_the_helpers_stand_beside_them(house: House) -> None:
    async def names() -> list[str]:
        async with connected(house) as client:
            assert client.protocol_version == "2026-07-28"
            assert client.server_capabilities.extensions == {TASKS: {}}
            return [tool.name for tool in (await client.list_tools()).tools]

    assert asyncio.run(names()) == ["dice", "hostile", "sleepy", "stepper", *HELPERS]


def test_a_client_of_the_extension_gets_a_task_and_follows_it_to_the_result(house: House) -> None:
    async def call() -> None:
        async with connected(house, tasks=True) as client:
            arguments = nap(1.5, progress=True)
            result = await client.call_tool("sleepy", arguments)
            told = structured(result)
            assert not result.is_error
            assert told["state"] == "succeeded"
            assert told["result"] == {"echo": arguments["echo"], "seed": 0}

    asyncio.run(call())


def test_a_task_is_durable_before_it_is_answered_and_tells_how_it_stands(house: House) -> None:
    async def call() -> None:
        async with connected(house, tasks=True) as client:
            handle: Any = await client.session.call_tool(
                "sleepy", nap(LONG_S, progress=True), allow_claimed=True
            )
            assert handle.status == "working"
            assert house.job(handle.task_id)[0] in ("queued", "running")
            assert handle.status_message.startswith(("Queued", "Running"))
            assert handle.poll_interval_ms >= 1000
            assert handle.ttl_ms == 30 * 24 * 3600 * 1000
            async with asyncio.timeout(60):
                while "s left" not in await standing(client, handle.task_id):
                    await asyncio.sleep(0.2)
            await cancel_task(client, handle.task_id)
            await until(client, handle.task_id, "cancelled")

    asyncio.run(call())


def test_a_task_that_is_completed_tells_its_result(house: House) -> None:
    async def call() -> None:
        async with connected(house, tasks=True) as client:
            handle: Any = await client.session.call_tool("sleepy", nap(), allow_claimed=True)
            state = await until(client, handle.task_id, "completed")
            assert state.result is not None
            assert state.result["structuredContent"]["state"] == "succeeded"
            assert state.poll_interval_ms is None

    asyncio.run(call())


def test_a_call_that_was_answered_before_needs_no_task(house: House) -> None:
    async def call() -> None:
        async with connected(house, tasks=True) as client:
            arguments = nap()
            first = structured(await client.call_tool("sleepy", arguments))
            again: Any = await client.session.call_tool("sleepy", arguments, allow_claimed=True)
            assert again.result_type == "complete"
            assert again.structured_content["result"] == first["result"]
            assert again.structured_content["job_id"] != first["job_id"]

    asyncio.run(call())


def test_a_cancelled_task_is_cancelled_once_its_worker_has_stopped(house: House) -> None:
    async def call() -> None:
        async with connected(house, tasks=True) as client:
            handle: Any = await client.session.call_tool("sleepy", nap(LONG_S), allow_claimed=True)
            await until_running(client, handle.task_id)
            await cancel_task(client, handle.task_id)
            state = await until(client, handle.task_id, "cancelled")
            assert state.result is None
            assert house.job(handle.task_id)[0] == "cancelled"
            await cancel_task(client, handle.task_id)  # idempotent

    asyncio.run(call())


async def until_running(client: Any, task_id: str) -> None:
    async with asyncio.timeout(60):
        while not (await standing(client, task_id)).startswith("Running"):
            await asyncio.sleep(0.1)


async def standing(client: Any, task_id: str) -> str:
    """How a task that is not done says it stands."""
    state = await get_task(client, task_id)
    assert state.status == "working", state
    return state.status_message or ""


def test_a_failed_job_is_a_completed_task_whose_result_is_an_error(house: House) -> None:
    async def call() -> None:
        async with connected(house, tasks=True) as client:
            handle: Any = await client.session.call_tool(
                "sleepy", nap(LONG_S, _call={"deadline_s": 6}), allow_claimed=True
            )
            state = await until(client, handle.task_id, "completed")
            assert state.result is not None
            assert state.result["isError"] is True
            told = state.result["structuredContent"]
            assert (told["code"], told["job_id"]) == ("deadline_exceeded", handle.task_id)
            assert "What to do: " in state.result["content"][0]["text"]
            assert state.error is None

    asyncio.run(call())


def test_an_expired_job_is_a_cancelled_task_that_says_so(house: House) -> None:
    async def call() -> None:
        async with connected(house, tasks=True) as client:
            # Nobody works on dice here.
            handle: Any = await client.session.call_tool(
                "dice", {"dice": 6, "_call": {"start_within_s": 0.5}}, allow_claimed=True
            )
            state = await until(client, handle.task_id, "cancelled")
            assert (
                state.status_message
                == "Expired: The job could not start in the time the caller allowed."
            )

    asyncio.run(call())


def test_an_answer_to_a_task_is_accepted_and_changes_nothing(house: House) -> None:
    async def call() -> None:
        async with connected(house, tasks=True) as client:
            handle: Any = await client.session.call_tool("sleepy", nap(1), allow_claimed=True)
            await update_task(client, handle.task_id)
            state = await until(client, handle.task_id, "completed", "cancelled")
            assert state.status == "completed"

    asyncio.run(call())


@pytest.mark.parametrize("request_of", [get_task, cancel_task, update_task])
def test_a_foreign_task_is_as_unknown_as_one_that_never_was(
    house: House, other_key: str, request_of: Any
) -> None:
    job_id = house.accepted(seconds=0)

    async def refusals() -> list[tuple[int, str]]:
        told = []
        async with connected(house, key=other_key, tasks=True) as client:
            for task_id in (job_id, str(uuid4()), "no id", "../jobs"):
                with pytest.raises(MCPError) as refused:
                    await request_of(client, task_id)
                told.append((refused.value.error.code, refused.value.error.message))
        return told

    assert set(asyncio.run(refusals())) == {(-32602, "Task not found")}
    assert house.until(job_id, "succeeded")[0] == "succeeded"


def test_without_the_extension_a_short_call_is_answered_with_its_result(house: House) -> None:
    async def call() -> None:
        async with connected(house) as client:
            arguments = nap(0.3)
            told = structured(await client.call_tool("sleepy", arguments))
            assert told["result"]["echo"] == arguments["echo"]

    asyncio.run(call())


def test_without_the_extension_a_long_call_names_its_job_and_how_to_wait(house: House) -> None:
    async def call() -> None:
        async with connected(house) as client:
            with house.busy():
                result = await client.call_tool("sleepy", nap(_call={"wait_s": 0}))
            told = structured(result)
            assert not result.is_error
            assert told["state"] == "queued"
            assert told["next"] == f'Call wait_for_job with {{"job_ids": ["{told["job_id"]}"]}}.'
            arguments = {"job_ids": [told["job_id"]], "timeout_s": MOST_WAIT_S}
            waited = structured(await client.call_tool("wait_for_job", arguments))
            assert waited["done"] is True
            assert waited["jobs"][0]["result"]["seed"] == 0
            assert "next" not in waited

    asyncio.run(call())


def test_a_client_of_2025_11_25_calls_tools_too(house: House) -> None:
    async def call() -> None:
        async with connected(house, mode="legacy") as client:
            assert client.protocol_version == "2025-11-25"
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names[-4:] == HELPERS
            arguments = nap(0.2)
            result = await client.call_tool("sleepy", arguments)
            assert structured(result)["result"]["echo"] == arguments["echo"]
            wrong = await client.call_tool("sleepy", {"seconds": "long"})
            assert wrong.is_error

    asyncio.run(call())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_that_asked_hears_of_progress_while_it_waits(house: House, mode: str) -> None:
    heard: list[tuple[float, str | None]] = []
    arguments = nap(LONG_S, progress=True, _call={"wait_s": MOST_WAIT_S})

    async def call() -> None:
        runs = asyncio.Event()

        async def note(progress: float, total: float | None, message: str | None) -> None:
            assert total is None
            heard.append((progress, message))
            if "s left" in (message or ""):
                runs.set()

        async with connected(house, mode=mode) as client:
            calling = asyncio.create_task(
                client.call_tool("sleepy", arguments, progress_callback=note)
            )
            async with asyncio.timeout(MOST_WAIT_S):
                await runs.wait()
            await asyncio.to_thread(cancel, house, newest(house))
            assert structured(await calling)["code"] == "cancelled"

    asyncio.run(call())
    assert sorted(heard) == heard


def test_waiting_for_any_returns_with_the_first_and_for_all_with_the_last(house: House) -> None:
    async def call() -> None:
        async with connected(house) as client:
            ids = []
            for seconds in (0.3, LONG_S):
                told = await client.call_tool("sleepy", nap(seconds, _call={"wait_s": 0}))
                ids.append(structured(told)["job_id"])
            waiting = {"job_ids": ids, "timeout_s": MOST_WAIT_S}
            some = structured(await client.call_tool("wait_for_job", {**waiting, "mode": "any"}))
            assert [job["state"] == "succeeded" for job in some["jobs"]] == [True, False]
            assert (some["done"], "again" in some["next"]) == (True, True)
            cancel(house, ids[1])
            every = structured(await client.call_tool("wait_for_job", {**waiting, "mode": "all"}))
            assert [job["state"] for job in every["jobs"]] == ["succeeded", "cancelled"]
            assert every["done"] is True

    asyncio.run(call())


def test_a_wait_is_over_when_its_time_is(house: House) -> None:
    async def call() -> None:
        async with connected(house) as client:
            told = structured(await client.call_tool("sleepy", nap(LONG_S, _call={"wait_s": 0})))
            began = time.monotonic()
            waited = structured(
                await client.call_tool(
                    "wait_for_job", {"job_ids": [told["job_id"]], "timeout_s": 0.5}
                )
            )
            assert time.monotonic() - began < USUAL_WAIT_S
            assert waited["done"] is False
            cancelled = structured(await client.call_tool("cancel_job", {"job_id": told["job_id"]}))
            assert cancelled["job_id"] == told["job_id"]
            shown = structured(await client.call_tool("get_job", {"job_id": told["job_id"]}))
            assert shown["state"] in ("running", "cancelled")

    asyncio.run(call())


def test_an_estimate_makes_no_job(house: House) -> None:
    async def call() -> None:
        async with connected(house) as client:
            before = house.count("jobs_job")
            told = structured(
                await client.call_tool(
                    "estimate", {"model": "sleepy", "inputs": nap(1), "_call": {"seed": 3}}
                )
            )
            assert told["normalized_inputs"]["progress"] is False
            assert house.count("jobs_job") == before
            wrong = await client.call_tool("estimate", {"model": "sleepy", "inputs": {}})
            assert structured(wrong)["errors"][0]["pointer"] == "/seconds"
            nothing = await client.call_tool("estimate", {"model": "nothing", "inputs": {}})
            assert structured(nothing)["code"] == "model_not_found"

    asyncio.run(call())


def test_wrong_inputs_are_a_result_that_says_what_to_change(house: House) -> None:
    async def call() -> None:
        async with connected(house) as client:
            result = await client.call_tool("sleepy", {"seconds": "long", "ech": "x"})
            assert result.is_error
            told = structured(result)
            assert told["code"] == "invalid_request"
            assert {error["pointer"] for error in told["errors"]} == {"/seconds", "/ech"}
            text: Any = result.content[0]
            assert "/seconds: wrong_type, got long, expected number" in text.text
            assert "What to do: Correct what `errors` points at" in text.text

    asyncio.run(call())


@pytest.mark.parametrize(
    ("options", "place", "code"),
    [
        ("soon", "/_call", "wrong_type"),
        ({"seed": -1}, "/_call/seed", "too_small"),
        ({"speed": 1}, "/_call/speed", "unknown_field"),
        ({"wait_s": 46}, "/_call/wait_s", "too_large"),
        ({"wait_s": "x"}, "/_call/wait_s", "wrong_type"),
        ({"wait_s": True}, "/_call/wait_s", "wrong_type"),
    ],
)
def test_wrong_options_of_a_call_are_named_where_they_stand(
    house: House, options: Any, place: str, code: str
) -> None:
    answer = Raw(house=house).post("tools/call", name="sleepy", arguments=nap(_call=options))
    (error,) = answer.body["result"]["structuredContent"]["errors"]
    assert (error["pointer"], error["code"]) == (place, code)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"job_ids": []},
        {"job_ids": [7]},
        {"job_ids": ["x"] * 101},
        {"job_ids": ["x"], "mode": "some"},
        {"job_ids": ["x"], "timeout_s": 46},
        {"job_ids": ["x"], "until": "then"},
    ],
)
def test_wrong_arguments_of_a_helper_are_a_result_too(
    house: House, arguments: dict[str, Any]
) -> None:
    answer = Raw(house=house).post("tools/call", name="wait_for_job", arguments=arguments)
    result = answer.body["result"]
    assert result["isError"] is True
    assert result["structuredContent"]["code"] == "invalid_input"


@pytest.mark.parametrize("helper", ["get_job", "cancel_job", "wait_for_job"])
def test_a_helper_knows_no_job_of_others(house: House, other_key: str, helper: str) -> None:
    job_id = house.accepted(seconds=0)
    told = []
    for each in (job_id, str(uuid4()), "no id", "../../v1/jobs"):
        arguments: dict[str, Any] = {"job_ids": [each]} if "wait" in helper else {"job_id": each}
        raw = Raw(house=house, key=other_key)
        result = raw.post("tools/call", name=helper, arguments=arguments).body["result"]
        problem = result["structuredContent"]
        problem.pop("request_id")
        told.append((result["isError"], problem))
    assert told[0][1]["code"] == "job_not_found"
    assert told[0][1]["suggested_action"].startswith("Use the `job_id`")
    assert all(each == told[0] for each in told)


def test_of_many_jobs_the_one_that_is_unknown_is_pointed_at(house: House) -> None:
    arguments = {"job_ids": [house.accepted(seconds=0), "no id"]}
    raw = Raw(house=house)
    result = raw.post("tools/call", name="wait_for_job", arguments=arguments).body["result"]
    assert "- /job_ids/1: invalid, expected the `job_id` of an answer" in _text(result)


@pytest.mark.parametrize("name", ["nothing", "../jobs", "SLEEPY", "", "é"])
def test_an_unknown_tool_is_a_fault_of_the_protocol(house: House, name: str) -> None:
    answer = Raw(house=house).post(
        "tools/call", name=name, arguments={}, headers={"Mcp-Name": _header(name)}
    )
    assert (answer.status, answer.error) == (400, -32602)


def _text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def test_alternatives_are_named_in_the_words_that_an_agent_reads(house: House) -> None:
    arguments = {"model": "sleepi", "inputs": {}}
    raw = Raw(house=house)
    result = raw.post("tools/call", name="estimate", arguments=arguments).body["result"]
    assert "- instead: sleepy (" in _text(result)


def test_advice_is_about_tools_where_rest_would_name_an_address(house: House) -> None:
    arguments = {"model": "nothing", "inputs": {}}
    result = Raw(house=house).post("tools/call", name="estimate", arguments=arguments)
    told = result.body["result"]
    action = told["structuredContent"]["suggested_action"]
    assert action.startswith("List the tools again")
    assert f"What to do: {action}" in _text(told)
    same = house.post("/v1/models/nothing/estimate", {"inputs": {}}).body
    assert same["code"] == told["structuredContent"]["code"] == "model_not_found"
    assert "/v1/models" in same["suggested_action"]


def _header(name: str) -> str:
    from mcp.shared.inbound import encode_header_value

    return encode_header_value(name)


def test_a_retry_with_the_same_idempotency_key_is_the_same_job(house: House) -> None:
    raw, arguments, key = Raw(house=house), nap(_call={"no_cache": True}), uuid4().hex
    meta = {"foldline/idempotencyKey": key}
    first, again = (
        raw.post("tools/call", name="sleepy", arguments=arguments, _meta=meta).body["result"]
        for _ in range(2)
    )
    assert first["structuredContent"]["job_id"] == again["structuredContent"]["job_id"]
    other = raw.post("tools/call", name="sleepy", arguments=nap(), _meta=meta).body["result"]
    assert other["structuredContent"]["code"] == "idempotency_key_reused"


@pytest.mark.parametrize("key", [7, "", "é", "\n", "x" * 256])
def test_a_wrong_idempotency_key_is_a_result_that_says_so(house: House, key: Any) -> None:
    meta = {"foldline/idempotencyKey": key}
    raw = Raw(house=house)
    result = raw.post("tools/call", name="sleepy", arguments=nap(), _meta=meta).body["result"]
    assert result["structuredContent"]["code"] == "invalid_request"


def test_a_retry_without_a_key_shares_the_run_that_is_under_way(house: House) -> None:
    raw, arguments = Raw(house=house), nap(LONG_S, _call={"wait_s": 0})
    first, again = (
        raw.post("tools/call", name="sleepy", arguments=arguments).body["result"][
            "structuredContent"
        ]["job_id"]
        for _ in range(2)
    )
    assert house.get(f"/v1/jobs/{again}").body["coalesced_with"] == first
    for job_id in (first, again):
        cancel(house, job_id)


def test_a_file_is_a_link_that_its_owner_can_follow(house: House) -> None:
    arguments = nap(file=True)
    raw = Raw(house=house)
    result = raw.post("tools/call", name="sleepy", arguments=arguments).body["result"]
    _, link = result["content"]
    assert (link["type"], link["name"], link["mimeType"]) == (
        "resource_link",
        "echo.txt",
        "text/plain",
    )
    path = link["uri"].partition(str(house.port))[2]
    content = raw.send(b"", headers={}, method="GET", path=path).body
    assert content.decode() == arguments["echo"]


def test_two_gateway_processes_answer_for_one_another(house: House, other_port: int) -> None:
    async def call() -> None:
        async with (
            connected(house, tasks=True) as here,
            connected(house, port=other_port, tasks=True) as there,
        ):
            handle: Any = await here.session.call_tool("sleepy", nap(1), allow_claimed=True)
            state = await until(there, handle.task_id, "completed")
            assert state.result is not None
            assert state.result["structuredContent"]["job_id"] == handle.task_id

    asyncio.run(call())


def test_tasks_need_the_capability(house: House) -> None:
    answer = Raw(house=house).post("tasks/get", taskId=str(uuid4()))
    assert (answer.status, answer.error) == (400, -32021)
    assert TASKS in answer.body["error"]["data"]["requiredCapabilities"]["extensions"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"MCP-Protocol-Version": "2027-01-01"}, -32020),
        ({"Mcp-Method": "tools/list"}, -32020),
        ({"Mcp-Method": None}, -32020),
        ({"Mcp-Name": "other"}, -32020),
        ({"Mcp-Name": None}, -32020),
    ],
)
@pytest.mark.parametrize("method", ["tools/call", "tasks/get"])
def test_headers_that_say_something_else_than_the_body_are_refused(
    house: House, method: str, headers: dict[str, str | None], code: int
) -> None:
    raw = Raw(house=house, extensions={TASKS: {}})
    named = {"name": "sleepy"} if method == "tools/call" else {"taskId": str(uuid4())}
    answer = raw.post(method, headers=headers, **named)
    assert (answer.status, answer.error) == (400, code)


def test_an_unknown_version_is_told_which_ones_there_are(house: House) -> None:
    version = "2027-01-01"
    answer = Raw(house=house).post(
        "tools/list",
        headers={"MCP-Protocol-Version": version},
        _meta={"io.modelcontextprotocol/protocolVersion": version},
    )
    assert (answer.status, answer.error) == (400, -32022)
    assert answer.body["error"]["data"]["supported"] == ["2026-07-28"]


def test_an_unknown_method_is_not_found(house: House) -> None:
    answer = Raw(house=house).post("tools/dance")
    assert (answer.status, answer.error) == (404, -32601)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "file://localhost",
        "http://[",
    ],
)
def test_a_page_of_another_site_may_not_call(house: House, origin: str) -> None:
    answer = Raw(house=house).post("tools/list", headers={"Origin": origin})
    assert (answer.status, answer.body["code"]) == (403, "origin_refused")


def test_a_page_of_ours_may(house: House) -> None:
    raw = Raw(house=house)
    for origin in ("http://localhost:6274", f"http://127.0.0.1:{house.port}"):
        assert raw.post("tools/list", headers={"Origin": origin}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", ""])
def test_a_host_that_is_not_ours_is_refused(house: House, host: str) -> None:
    answer = Raw(house=house).post("tools/list", headers={"Host": host})
    assert (answer.status, answer.body["code"]) == (421, "host_refused")


@pytest.mark.parametrize("authorization", [None, "Bearer nonsense", "Basic eDp5"])
def test_without_a_good_key_there_is_a_401_before_anything_else(
    house: House, authorization: str | None
) -> None:
    raw = Raw(house=house)
    for method in ("tools/list", "tools/call", "server/discover", "tools/dance"):
        answer = raw.post(method, name="x", headers={"Authorization": authorization})
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    headers = {"Authorization": authorization}
    assert raw.send(b"x" * (2**20 + 1), headers=headers).status == 401
    assert raw.send(b"", headers=headers, method="GET").status == 401


def test_a_key_in_the_address_is_refused(house: House) -> None:
    answer = Raw(house=house).send(b"{}", headers={}, path=f"/mcp?key={house.key}")
    assert (answer.status, answer.body["code"]) == (400, "key_in_url")


def test_a_key_that_may_only_read_cannot_call_a_model(house: House) -> None:
    raw = Raw(house=house, key=issue(house, name="reader", scopes=("read",)))
    assert raw.post("tools/list").status == 200
    result = raw.post("tools/call", name="sleepy", arguments=nap()).body["result"]
    assert (result["isError"], result["structuredContent"]["code"]) == (True, "scope_missing")


def test_a_key_that_may_not_read_is_told_so(house: House) -> None:
    raw = Raw(house=house, key=issue(house, name="writer", scopes=("submit",)))
    result = raw.post("tools/call", name="sleepy", arguments=nap()).body["result"]
    assert (result["isError"], result["structuredContent"]["code"]) == (True, "scope_missing")
    listed = raw.post("tools/list")
    assert listed.error == -32603
    assert listed.body["error"]["data"]["code"] == "scope_missing"


def test_a_key_that_is_revoked_while_it_waits_is_shown_out(house: House) -> None:
    raw = Raw(house=house, key=issue(house, name="brief"))
    assert raw.post("tools/list").status == 200

    arguments = nap(LONG_S, _call={"wait_s": MOST_WAIT_S})
    before = house.count("jobs_job")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(raw.post, "tools/call", name="sleepy", arguments=arguments)
        wait_until(lambda: house.count("jobs_job") > before)
        command = _REVOKE.format(name="brief")
        house.manage("shell", "--verbosity", "0", "--command", command)
        began = time.monotonic()
        answer = waiting.result()
    assert (answer.status, answer.body["code"]) == (401, "key_refused")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert time.monotonic() - began < USUAL_WAIT_S
    cancel(house, newest(house))


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_is_nothing_to_get_or_delete(house: House, method: str) -> None:
    answer = Raw(house=house).send(b"", headers={}, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_a_body_of_more_than_a_mebibyte_is_not_read(house: House) -> None:
    answer = Raw(house=house).post("tools/call", name="sleepy", arguments={"echo": "x" * 2**20})
    assert (answer.status, answer.body["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"a":NaN}}}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_json_is_a_parse_error(house: House, body: bytes) -> None:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    answer = Raw(house=house).send(body, headers=headers)
    assert (answer.status, answer.error) == (400, -32700)


@pytest.mark.parametrize("body", [b"7", b"null", b"[]", b'[{"jsonrpc":"2.0"}]', b'{"id":1}'])
def test_json_that_is_no_request_is_refused(house: House, body: bytes) -> None:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    answer = Raw(house=house).send(body, headers=headers)
    assert (answer.status, answer.error) == (400, -32600)


@pytest.mark.parametrize(
    "value", [10**30, "\x00", [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
)
def test_arguments_that_no_job_can_hold_are_a_result_that_says_so(house: House, value: Any) -> None:
    import json

    raw = Raw(house=house)
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "sleepy", "arguments": {"seconds": 0, "echo": value}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "sleepy",
    }  # fmt: skip
    result = raw.send(json.dumps(body).encode(), headers=headers).body["result"]
    assert (result["isError"], result["structuredContent"]["code"]) == (True, "invalid_json")


def test_more_calls_wait_than_there_are_threads_and_others_are_served(house: House) -> None:
    """A gateway process has 8 threads."""
    raw, job_id = Raw(house=house), house.accepted(seconds=LONG_S)
    arguments = {"job_ids": [job_id, job_id], "timeout_s": MOST_WAIT_S}

    def wait() -> Any:
        return raw.post("tools/call", name="wait_for_job", arguments=arguments)

    with ThreadPoolExecutor(24) as pool:
        waits = [pool.submit(wait) for _ in range(24)]
        for _ in range(20):
            assert house.get("/v1/models").status == 200
        assert not any(each.done() for each in waits)
        cancel(house, job_id)
        for each in waits:
            (job,) = each.result().body["result"]["structuredContent"]["jobs"]
            assert job["state"] == "cancelled"


def test_results_of_many_jobs_are_told_as_far_as_an_agent_can_read_them(house: House) -> None:
    raw = Raw(house=house)
    ids = [house.accepted(seconds=0, echo=f"{n:03}" * 300) for n in range(90)]
    for job_id in ids:
        house.until(job_id, "succeeded")
    arguments = {"job_ids": ids, "mode": "all"}
    result = raw.post("tools/call", name="wait_for_job", arguments=arguments).body["result"]
    assert len(result["content"][0]["text"]) < 96 * 1024
    told = result["structuredContent"]["jobs"]
    assert [job["job_id"] for job in told] == ids
    full, rest = [[j for j in told if ("result" in j) is has] for has in (True, False)]
    assert len(full) > 40
    assert rest
    assert all("Call get_job" in job["next"] for job in rest)
    more = raw.post("tools/call", name="get_job", arguments={"job_id": rest[0]["job_id"]})
    assert more.body["result"]["structuredContent"]["result"]["echo"]


def limited(house: House, slug: str, **limits: int) -> str:
    """A key of a new tenant with these limits."""
    key = issue(house, slug=slug, name=slug)
    command = _QUOTA.format(slug=slug, limits=limits)
    house.manage("shell", "--verbosity", "0", "--command", command)
    return key


def test_a_quota_that_refuses_a_call_is_a_result_that_says_so(house: House) -> None:
    raw = Raw(house=house, key=limited(house, "patient", waiting=0))
    result = raw.post("tools/call", name="sleepy", arguments=nap()).body["result"]
    assert result["isError"] is True
    assert result["structuredContent"]["code"] == "quota_exceeded"
    assert result["structuredContent"]["limit"]["name"] == "waiting"
    assert result["content"][0]["text"].startswith("quota_exceeded: ")


def test_a_request_counts_once_however_long_it_waits_and_however_often_it_asks(
    house: House,
) -> None:
    key = limited(house, "chatty", polls_per_minute=3, requests_per_minute=1)
    raw = Raw(house=house, key=key)
    began = time.monotonic()
    told = raw.post("tools/call", name="sleepy", arguments=nap(3)).body["result"]
    assert told["structuredContent"]["state"] == "succeeded"
    refused = raw.post("tools/call", name="sleepy", arguments=nap()).body["result"]
    assert refused["structuredContent"]["limit"]["name"] == "requests_per_minute"
    arguments = {"job_ids": [told["structuredContent"]["job_id"]]}
    shown = raw.post("tools/call", name="wait_for_job", arguments=arguments).body["result"]
    assert shown["structuredContent"]["done"] is True
    polls = 3
    while "limit" not in (late := shown["structuredContent"]):
        polls += 1
        shown = raw.post("tools/call", name="wait_for_job", arguments=arguments).body["result"]
    assert late["limit"]["name"] == "polls_per_minute"
    assert "Try again after" in shown["content"][0]["text"]
    # Three, and one more for each third of a minute that this took.
    assert polls - 1 <= 3 + (time.monotonic() - began) / 20


def test_a_list_beyond_the_polls_is_refused(house: House) -> None:
    listed = Raw(house=house, key=limited(house, "silent", polls_per_minute=0)).post("tools/list")
    assert (listed.error, listed.body["error"]["data"]["code"]) == (-32603, "quota_exceeded")


def test_what_a_request_does_counts_for_itself(house: House) -> None:
    raw = Raw(house=house, key=limited(house, "curious", requests_per_minute=1))
    arguments = {"model": "sleepy", "inputs": nap()}
    first, again = (
        raw.post("tools/call", name="estimate", arguments=arguments).body["result"]
        for _ in range(2)
    )
    assert first["isError"] is False
    assert again["structuredContent"]["limit"]["name"] == "requests_per_minute"


def test_one_id_names_the_request_and_all_that_is_asked_for_it(house: House) -> None:
    raw = Raw(house=house)
    wrong = raw.post("tools/call", name="sleepy", arguments={})
    name = wrong.headers["x-request-id"]
    assert wrong.body["result"]["structuredContent"]["request_id"] == name
    own = raw.post("tools/list", headers={"X-Request-ID": "agent-7"})
    assert own.headers["x-request-id"] == "agent-7"


def test_a_model_that_is_retired_is_no_tool_within_seconds(house: House) -> None:
    house.manage("shell", "--verbosity", "0", "--command", _RETIRE.format(name="stepper"))
    raw = Raw(house=house)

    def names() -> list[str]:
        return [tool["name"] for tool in raw.post("tools/list").body["result"]["tools"]]

    wait_until(lambda: "stepper" not in names())
    assert "sleepy" in names()
    wait_until(lambda: _code(raw, "stepper") == "model_retired")
    house.manage("shell", "--verbosity", "0", "--command", _PUBLISH.format(name="stepper"))
    wait_until(lambda: "stepper" in names())


def _code(raw: Raw, name: str) -> str:
    result = raw.post("tools/call", name=name, arguments={}).body["result"]
    return str(result["structuredContent"]["code"])


def test_a_gateway_that_ends_answers_those_who_wait(house: House) -> None:
    port = free_port()
    gateway = house.start("gateway", "-m", "gunicorn", FOLDLINE_PORT=str(port))
    wait_until(lambda: _answers(port), what="a gateway")

    metrics = f"http://127.0.0.1:{port}/metrics"

    def somebody_waits() -> bool:
        return "\nfoldline_waits 1.0\n" in httpx.get(metrics, timeout=60).text

    async def call() -> None:
        async with connected(house, port=port) as client:
            told = structured(await client.call_tool("sleepy", nap(LONG_S, _call={"wait_s": 0})))
            arguments = {"job_ids": [told["job_id"]], "timeout_s": MOST_WAIT_S}
            began = time.monotonic()
            waiting = asyncio.create_task(client.call_tool("wait_for_job", arguments))
            await asyncio.to_thread(wait_until, somebody_waits)
            gateway.running.terminate()
            waited = structured(await waiting)
            assert waited["done"] is False
            assert time.monotonic() - began < MOST_WAIT_S
            await asyncio.to_thread(cancel, house, told["job_id"])

    asyncio.run(call())
    assert gateway.running.wait(60) == 0
