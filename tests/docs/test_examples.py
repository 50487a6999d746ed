"""The examples of the pages, typed as they stand there, against one house with the real models."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.environment import ROOT
from tests.house import House, built
from tests.redis_server import running_redis

pytestmark = [pytest.mark.processes, pytest.mark.weights]

README = "README.md"
PAGES = (
    "docs/client.md",
    "docs/tools.md",
    "docs/batches.md",
    "docs/waiting.md",
    "docs/webhooks.md",
    "docs/alternatives.md",
    "docs/files.md",
)
"""Run after the README, whose files and variables they go on with."""

NOT_RUN = {
    ("docs/mcp.md", "python"): "its parts are awaited in tests/foldline/waiting/test_mcp.py",
    ("docs/tools.md", "python"): "it calls a vendor",
    ("docs/webhooks.md", "python"): "it stands in a receiver, as in tests/foldline/notify",
}

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(\.venv/bin/)?(curl|foldline) ", re.MULTILINE)
_PORT = "http://127.0.0.1:8000"

_BUILT_IN = """
from foldline.catalog.models import Revision
from foldline.catalog.services import publish, sync
from model_plugins.registry import BUILTIN_ROOT, discover
sync(discover([BUILTIN_ROOT]))
for revision in Revision.objects.filter(state="draft"):
    publish(revision, by=None)
"""


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall((ROOT / page).read_text()) if kind == language]


def pages() -> list[str]:
    return [str(path.relative_to(ROOT)) for path in [ROOT / README, *ROOT.glob("docs/*.md")]]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, builtin_python: Path) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    with (
        running_redis(tmp_path_factory.mktemp("redis")) as redis,
        built(folder, redis=redis) as house,
    ):
        (folder / "runtimes" / "builtin").symlink_to(builtin_python.parent.parent)
        house.manage("shell", "--verbosity", "0", "--command", _BUILT_IN)
        house.start_gateway()
        house.start_sweeper()
        for model in ("flash_abb", "proteinmpnn"):  # their first calls wait until they are loaded
            house.start(f"{model}-worker", "-m", "tasks.worker", model)
        yield house


class Typist:
    """Types blocks into a shell, in a folder that looks like a checkout after `make up`."""

    def __init__(self, house: House, folder: Path) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{house.port}"
        (folder / "var" / "secrets").mkdir(parents=True)
        (folder / "var" / "secrets" / "demo_api_key").write_text(house.key)
        (folder / ".venv").symlink_to(sys.prefix)
        (folder / ".curlrc").write_text("fail-with-body\n")  # a refusal is a failure
        self.environment = {
            **{name: v for name, v in os.environ.items() if not name.startswith("FOLDLINE_")},
            "FOLDLINE_URL": self.url,
            "FOLDLINE_API_KEY": house.key,
            "CURL_HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def type(self, *command: str, text: str) -> None:
        done = subprocess.run(
            command,
            input=text.replace(_PORT, self.url),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"

    def page(self, page: str) -> None:
        """All of a page's blocks of a language are one session."""
        self.type("bash", "-euo", "pipefail", text="\n".join(blocks(page, "sh")))
        if (page, "python") not in NOT_RUN:
            self.type(sys.executable, "-", text="\n".join(blocks(page, "python")))


@pytest.fixture(scope="module")
def typist(house: House, tmp_path_factory: pytest.TempPathFactory) -> Typist:
    if shutil.which("curl") is None:
        pytest.skip("no curl here")
    typist = Typist(house, tmp_path_factory.mktemp("checkout"))
    typist.page(README)
    return typist


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_can_be_typed(typist: Typist, page: str) -> None:
    typist.page(page)


def test_every_example_is_typed_or_says_why_not() -> None:
    shells = {page for page in pages() if any(map(_COMMAND.search, blocks(page, "sh")))}
    assert shells == {README, *PAGES}
    untagged = {page for page in pages() if any(map(_COMMAND.search, blocks(page, "")))}
    assert not untagged, "mark the blocks as `sh`"
    python = {page for page in pages() if blocks(page, "python")}
    assert {page for page in python if (page, "python") not in NOT_RUN} <= {README, *PAGES}


def test_what_is_marked_as_json_is_json() -> None:
    for page in pages():
        for block in blocks(page, "json"):
            json.loads(block)
