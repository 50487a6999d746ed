"""A plugin is asked about a call's inputs before they are a job, and nothing it does harms us."""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.test import Client
from pytest_django import Settings

from foldline.api.answers import Job as JobAnswer
from foldline.catalog import preflight
from foldline.catalog.models import Revision
from foldline.catalog.preflight import helpers
from foldline.catalog.selectors import live_model
from foldline.jobs import services
from foldline.jobs.models import Job
from foldline.jobs.services import claim
from foldline.tenants.models import Tenant
from tests.at_once import at_once
from tests.worker_process import has_ended, wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unsent")]
MakeLive = Callable[..., Revision]
Call = Callable[..., Any]  # the test client's answer

PR_GET_DUMPABLE = 3
LONG_S = 60.0
MANIFEST = """
[model]
name = "echo"
title = "Echo"
description = "Answers with its input."
lane = "online"
licence = "MIT"

[plugin]
entry = "plugin:Plugin"
runtime = "none"
version = "1.0"
seed_default = "fixed"
load_timeout_s = 10
run_timeout_s = 60
memory_mb = 100
preflight = true
"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "maxLength": 100},
        "file": {"type": "string", "format": "artifact", "maxLength": 64},
    },
    "examples": [{"text": "abc"}],
}
CODE = """
import os, sys, time
from model_plugins.base import InvalidInput

class Plugin:
    def load(self, context): ...

    def infer(self, inputs, context): ...

    def preflight(self, inputs):
{body}
"""
LOWER = """
        if "!" in inputs["text"]:
            raise InvalidInput("No shouting.", pointer="/text", reason="not_allowed", got="!",
                               expected="plain words", hint="Calm down.")
        lower = inputs["text"].lower()
        warnings = [] if lower == inputs["text"] else ["lowered: Capitals were made small."]
        return {**inputs, "text": lower}, warnings
"""


def write_plugin(folder: Path, *, code: str) -> None:
    folder.mkdir(parents=True)
    (folder / "manifest.toml").write_text(MANIFEST)
    (folder / "plugin.py").write_text(code)
    (folder / "input.schema.json").write_text(json.dumps(SCHEMA))
    (folder / "output.schema.json").write_text('{"type": "object"}')


@pytest.fixture(autouse=True)
def _patient(settings: Settings) -> None:
    """What a plugin says counts, however slow this machine is; tests of the limit set their own."""
    settings.PREFLIGHT_S = LONG_S


@pytest.fixture
def plugin(tmp_path: Path, live_revision: MakeLive) -> Callable[[str], Revision]:
    """Make the model `echo` live, whose preflight is this code."""

    def make(body: str, *, code: str = CODE) -> Revision:
        folder = tmp_path / "plugins" / "echo"
        write_plugin(folder, code=code.format(body=body))
        return live_revision(folder=folder)

    return make


@pytest.fixture
def call(api: Client) -> Call:
    def post(text: str = "abc", *, address: str = "jobs", **body: Any) -> Any:
        inputs = {"text": text, **body.pop("inputs", {})}
        return api.post(
            f"/v1/models/echo/{address}",
            {"inputs": inputs, **body},
            content_type="application/json",
        )

    return post


def codes(answer: Any) -> list[str]:
    assert answer.status_code in (200, 202), answer.content
    return [warning["code"] for warning in answer.json()["warnings"]]


def pids() -> list[int]:
    """Of the helpers that run now."""
    mine = psutil.Process().children(recursive=True)
    return [each.pid for each in mine if not has_ended(each)]


def test_inputs_are_tidied_up_and_it_is_said(plugin: Any, call: Call, api: Client) -> None:
    plugin(LOWER)
    answer = call("AbC")
    JobAnswer.model_validate_json(answer.content)
    assert answer.json()["warnings"] == [
        {"code": "lowered", "message": "Capitals were made small.", "of": "call"}
    ]
    job = Job.objects.get()
    assert (job.inputs, job.normalized_input) == ({"text": "AbC"}, {"text": "abc"})
    assert api.get(f"/v1/jobs/{job.id}").json()["warnings"] == answer.json()["warnings"]
    estimate = call("AbC", address="estimate")
    assert codes(estimate) == ["lowered"]
    assert estimate.json()["normalized_inputs"] == {"text": "abc"}


def test_the_calls_of_a_batch_have_one_time_for_what_their_plugins_say(
    plugin: Any, call: Call, api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldline.api.batches.PREFLIGHTS_OF_ONE", 3 / LONG_S)
    plugin("        time.sleep(0.4)\n        return inputs, []\n")
    call()  # its process has started
    items = [{"model": "echo", "inputs": {"text": "a" * n}} for n in range(1, 26)]
    began = time.monotonic()
    answer = api.post("/v1/batches", {"jobs": items}, content_type="application/json")
    assert time.monotonic() - began < 25 * 0.4
    assert answer.status_code == 202
    found = [[each["message"] for each in one["job"]["warnings"]] for one in answer.json()["jobs"]]
    assert found[0] == []
    assert "the calls before it have taken the time" in found[-1][0]
    assert call("another").json()["warnings"] == []  # the process is none the worse for it


def test_what_means_the_same_is_the_same_call(plugin: Any, call: Call) -> None:
    plugin(LOWER)
    one, other = call("abc").json(), call("ABC").json()
    assert one["fingerprint"] == other["fingerprint"]
    assert other["coalesced_with"] == one["id"]
    assert (one["warnings"], [w["code"] for w in other["warnings"]]) == ([], ["lowered"])


@pytest.mark.parametrize("address", ["jobs", "estimate"])
def test_wrong_inputs_are_a_422_before_there_is_a_job(
    plugin: Any, call: Call, address: str
) -> None:
    plugin(LOWER)
    answer = call("hey!", address=address)
    body = answer.json()
    assert (answer.status_code, body["code"], body["detail"]) == (
        422,
        "invalid_input",
        "No shouting.",
    )
    assert body["errors"] == [
        {
            "pointer": "/inputs/text",
            "code": "not_allowed",
            "got": "!",
            "expected": "plain words",
            "hint": "Calm down.",
        }
    ]
    assert not Job.objects.exists()


def test_a_file_is_shown_as_a_copy_without_its_callers_name(
    plugin: Any, call: Call, api: Client, settings: Settings
) -> None:
    plugin("""
        path = inputs["file"]
        told = [f"read: {open(path).read()} {os.path.basename(path)}"]
        os.chmod(path, 0o600)
        os.unlink(path)
        return inputs, told
""")
    sent = api.post("/v1/artifacts?name=odd.pdb", b"ATOM", content_type="x/y").json()
    answer = call(inputs={"file": sent["id"]})
    assert answer.json()["warnings"][0]["message"] == "ATOM 0"
    assert Job.objects.get().normalized_input["file"] == sent["id"]
    content = api.get(f"/v1/artifacts/{sent['id']}/content")
    assert content.getvalue() == b"ATOM"


def test_one_process_answers_all_calls_of_a_revision(plugin: Any, call: Call) -> None:
    plugin(LOWER)
    call("A")
    first = pids()
    assert len(first) == 1
    for text in "BCDE":
        assert codes(call(text)) == ["lowered"]
    assert pids() == first


def test_a_model_that_asks_for_none_starts_no_process(live_revision: MakeLive, api: Client) -> None:
    live_revision()
    body = {"inputs": {"sequence": "EVQ"}}
    api.post("/v1/models/toy/jobs", body, content_type="application/json")
    assert pids() == []


SKIPPED = {
    "too slow": "        time.sleep(60)",
    "busy": "        while True: pass",
    "killed": "        os.kill(os.getpid(), 9)",
    "exits": "        os._exit(0)",
    "raises": "        raise RuntimeError('secret detail')",
    "too much memory": "        import mmap; mmap.mmap(-1, 3 * 2**29); return inputs, []",
    "no inputs": "        return None, []",
    "another type": "        return {**inputs, 'text': 5}, []",
    "an unknown field": "        return {**inputs, 'more': 5}, []",
    "not a number": "        return {**inputs, 'text': float('nan')}, []",
    "nul": "        return {**inputs, 'text': 'a\\0b'}, []",
    "half a character": "        return {**inputs, 'text': 'a\\ud800'}, []",
    "another file": "        return {**inputs, 'file': '/etc/passwd'}, []",
    "nonsense on the wire": "        os.write(3, b'nonsense\\n'); time.sleep(60)",
    "nul on the wire": (
        r"""        os.write(3, b'{"inputs": {"text": "a\u0000"}}\n'); """ + "time.sleep(60)"
    ),
    "never ends": "        os.write(3, b'x' * 2**26); time.sleep(60)",
}


@pytest.mark.parametrize("body", SKIPPED.values(), ids=SKIPPED.keys())
def test_a_plugin_that_gives_no_usable_answer_is_passed_over_and_the_worker_checks(
    plugin: Any, call: Call, settings: Settings, body: str
) -> None:
    settings.PREFLIGHT_S = 0.5
    plugin(body)
    began = time.monotonic()
    answer = call("AbC")
    assert time.monotonic() - began < LONG_S / 2  # what sleeps would sleep for twice as long
    assert codes(answer) == ["preflight_skipped"]
    assert "secret" not in answer.content.decode()
    assert Job.objects.get().normalized_input == {"text": "AbC"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", "import no_such_package\n{body}"),
        ("", "this is no Python {body}"),
        ("", CODE.replace("def preflight", "def postflight")),
        ("", "import sys; sys.exit(3)\n{body}"),
    ],
    ids=["an import that fails", "no Python", "no preflight", "exits"],
)
def test_a_plugin_that_cannot_be_asked_is_passed_over(
    plugin: Any, call: Call, body: str, code: str
) -> None:
    plugin(body, code=code)
    assert codes(call()) == ["preflight_skipped"]


def test_a_plugin_whose_folder_is_not_here_is_passed_over(plugin: Any, call: Call) -> None:
    Revision.objects.filter(pk=plugin(LOWER).pk).update(folder="/nowhere")
    assert codes(call()) == ["preflight_skipped"]


def test_switched_off_nobody_is_asked(plugin: Any, call: Call, settings: Settings) -> None:
    settings.PREFLIGHT_S = 0.0
    plugin(LOWER)
    assert codes(call("ABC")) == []
    assert pids() == []


def test_after_a_failure_the_next_call_is_asked_again(plugin: Any, call: Call) -> None:
    plugin("        if inputs['text'] == 'die': os._exit(1)\n" + LOWER)
    assert codes(call("die")) == ["preflight_skipped"]
    assert codes(call("ABC")) == ["lowered"]


def test_after_three_failures_it_rests(plugin: Any, call: Call, settings: Settings) -> None:
    settings.PREFLIGHT_S = 0.3
    plugin("        time.sleep(60)")
    for text in "abc":
        assert codes(call(text)) == ["preflight_skipped"]
    settings.PREFLIGHT_S = LONG_S  # as long as each would take that is asked
    began = time.monotonic()
    for text in "defg":
        assert codes(call(text)) == ["preflight_skipped"]
        assert time.monotonic() - began < LONG_S / 2
    assert pids() == []


def test_callers_at_once_are_all_answered(plugin: Any, call: Call) -> None:
    plugin(LOWER)
    live = live_model("echo")
    asked = [partial(preflight.judged, live, {"text": f"A{n}"}) for n in range(8)]
    told = at_once(asked)
    assert [each.inputs for each in told] == [{"text": f"a{n}"} for n in range(8)]


def asleep() -> list[int]:
    """Whatever was started by the plugin below, whoever is its parent by now."""
    seen = psutil.process_iter(["cmdline"])
    return [each.pid for each in seen if "317.25" in (each.info["cmdline"] or [])[1:2]]


def test_nothing_it_has_started_outlives_it(
    plugin: Any, call: Call, settings: Settings, tmp_path: Path
) -> None:
    settings.PREFLIGHT_S = 1.0
    plugin("        import subprocess; subprocess.Popen(['sleep', '317.25']); time.sleep(60)")
    assert codes(call()) == ["preflight_skipped"]
    wait_until(lambda: pids() == [] and not asleep())


def test_it_ends_when_the_gateway_is_gone_even_in_the_middle_of_a_call(
    plugin: Any, call: Call
) -> None:
    plugin("        time.sleep(60)")
    helper = helpers.of(live_model("echo"))
    helper._start()  # as for a call whose gateway does not live to hear the end of it
    process = helper._process
    assert process is not None
    assert helper._line(time.monotonic() + LONG_S).ready
    helper._channel.sendall(b'{"inputs": {"text": "a"}}\n')
    helper._channel.close()
    assert process.wait(timeout=LONG_S) == 0
    helper._process = None


def test_it_gets_no_credentials_and_writes_no_files(
    plugin: Any, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    plugin("""
        found = ["environment: " + " ".join(sorted(os.environ))]
        found.append("modules: " + str("django" in sys.modules))
        found.append("descriptors: " + " ".join(sorted(os.listdir("/proc/self/fd"))))
        try:
            with open("/tmp/written-by-a-preflight", "w") as file:
                file.write("x")
            found.append("written: yes")
        except OSError as error:
            found.append("written: no")
        try:
            import django
            found.append("django: yes")
        except ImportError:
            found.append("django: no")
        return inputs, found
""")
    told = {each["code"]: each["message"] for each in call().json()["warnings"]}
    Path("/tmp/written-by-a-preflight").unlink(missing_ok=True)  # noqa: S108 - it is empty
    assert set(told["environment"].split()) <= {"LANG", "LC_CTYPE", "PATH"}
    assert (told["modules"], told["written"], told["django"]) == ("False", "no", "no")
    # 0 to 2 are nothing, 3 is the socket, 4 the listing itself.
    assert set(told["descriptors"].split()) <= {"0", "1", "2", "3", "4"}


def test_what_the_gateway_was_given_is_closed_to_it(plugin: Any, call: Call) -> None:
    plugin(LOWER)
    call()
    # Not dumpable: /proc/PID/environ and its memory are no other process's, but root's.
    assert ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0


class TestWarningsOfEqualCalls:
    """What is said of a call stays with it; what is said of a run is said to all it answers."""

    RUN = {"code": "low_confidence", "message": "Look twice."}

    def finish(self, revision: Revision, *warnings: dict[str, str]) -> None:
        (job,) = claim(revision_id=revision.id, owner="w1")
        services.finish(job.fence, result={}, warnings=warnings)

    def shown(self, api: Client, job: str) -> list[str]:
        return [each["code"] for each in api.get(f"/v1/jobs/{job}").json()["warnings"]]

    def test_one_that_is_attached_and_one_from_the_cache(
        self, plugin: Any, call: Call, api: Client, tenant: Tenant
    ) -> None:
        revision = plugin(LOWER)
        leader, plain = call("ABC").json()["id"], call("abc").json()["id"]
        tidied = call("aBC").json()["id"]
        self.finish(revision, self.RUN)
        assert self.shown(api, leader) == ["lowered", "low_confidence"]
        assert self.shown(api, plain) == ["low_confidence"]
        assert self.shown(api, tidied) == ["lowered", "low_confidence"]
        assert codes(call("abc")) == ["low_confidence"]
        assert codes(call("AbC")) == ["lowered", "low_confidence"]

    def test_what_the_worker_says_again_is_said_once(
        self, plugin: Any, call: Call, api: Client
    ) -> None:
        revision = plugin(LOWER)
        job = call("ABC").json()["id"]
        again = {"code": "lowered", "message": "Capitals were made small."}
        self.finish(revision, again, self.RUN)
        assert self.shown(api, job) == ["lowered", "low_confidence"]
