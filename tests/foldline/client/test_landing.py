"""Files from a server: their names, and that they come down whole or not at all."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline.client import BadAnswer, files_in, safe_name
from foldline.client.landing import landing
from tests.foldline.client.scripted import Says, Scripted
from tests.worker_process import wait_until

Connect = Callable[..., Any]
CONTENT = b"ATOM" * 5000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ARTIFACT = Says(body={"id": "a1", "name": "x.pdb", "sha256": SHA256, "size": len(CONTENT)})

NAMES = {
    "model.pdb": "model.pdb",
    "../../etc/passwd": "passwd",
    "/etc/passwd": "passwd",
    "..\\..\\boot.ini": "boot.ini",
    "C:\\x\\y.pdb": "y.pdb",
    "..": "otherwise",
    ".": "otherwise",
    "": "otherwise",
    "/": "otherwise",
    ".bashrc": "bashrc",
    "-rf": "rf",
    "~root": "root",
    "a\x00b.pdb": "ab.pdb",
    "a\nb\x1b[31m.pdb": "ab[31m.pdb",
    "evil\u202efdp.exe": "evilfdp.exe",
    "\ud800.pdb": "pdb",
    "CON": "otherwise",
    "nul.txt": "otherwise",
    "what?*.pdb": "what.pdb",
    "Größe Å.pdb": "Größe Å.pdb",
    "name. ": "name",
    "a/../b": "b",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_from_the_server_cannot_leave_the_folder(name: str, tmp_path: Path) -> None:
    made = safe_name(name, otherwise="otherwise")
    assert made == NAMES[name]
    assert (tmp_path / made).resolve().parent == tmp_path.resolve()


def test_an_endless_name_is_cut_and_keeps_its_ending(tmp_path: Path) -> None:
    made = safe_name("ä" * 5000 + ".pdb", otherwise="otherwise")
    assert made.endswith("ä.pdb")
    (tmp_path / made).write_text("")
    (tmp_path / safe_name("." * 9 + "x" * 9000, otherwise="o")).write_text("")


def test_every_file_of_a_result_is_found() -> None:
    file = {"artifact": "a1", "name": "x", "sha256": "0"}
    assert files_in({"x": file, "list": [{"y": file}, 1, None], "artifact": "text"}) == [file, file]


def test_a_download_is_whole_and_has_its_hash(
    connect: Connect, script: Scripted, tmp_path: Path
) -> None:
    script.will_say(ARTIFACT, Says(raw=CONTENT))
    connect(script.url).download("a1", tmp_path / "deep" / "x.pdb")
    assert (tmp_path / "deep" / "x.pdb").read_bytes() == CONTENT
    assert script.paths == ["/v1/artifacts/a1", "/v1/artifacts/a1/content"]


def test_a_download_that_breaks_off_begins_anew(
    connect: Connect, script: Scripted, tmp_path: Path
) -> None:
    broken = Says(raw=CONTENT[:999], headers={"Content-Length": str(len(CONTENT))})
    script.will_say(ARTIFACT, broken, broken, Says(raw=CONTENT))
    connect(script.url).download("a1", tmp_path / "x.pdb")
    assert (tmp_path / "x.pdb").read_bytes() == CONTENT


def test_wrong_bytes_leave_what_was_there_and_nothing_else(
    connect: Connect, script: Scripted, tmp_path: Path
) -> None:
    (tmp_path / "x.pdb").write_text("before")
    script.will_say(ARTIFACT, Says(raw=b"forged"))
    with pytest.raises(BadAnswer, match="SHA-256"):
        connect(script.url).download("a1", tmp_path / "x.pdb")
    assert [each.name for each in tmp_path.iterdir()] == ["x.pdb"]
    assert (tmp_path / "x.pdb").read_text() == "before"


def test_a_link_in_the_files_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / "x").symlink_to(tmp_path / "elsewhere")
    with landing(tmp_path / "x") as file:
        file.take(b"new")
    assert (tmp_path / "elsewhere").read_text() == "kept"
    assert (tmp_path / "x").read_text() == "new"


def test_a_kill_in_the_middle_leaves_no_half_file_under_the_name(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from foldline.client.landing import landing\n"
        f"with landing(Path({str(tmp_path)!r}) / 'x') as file:\n"
        "    file.take(b'half'); print(flush=True); time.sleep(60)"
    )
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.readline()
    os.kill(running.pid, signal.SIGKILL)
    wait_until(lambda: running.poll() is not None)
    running.stdout.close()
    assert not (tmp_path / "x").exists()


def test_an_upload_is_sent_whole_and_once_more_after_a_cut(
    connect: Connect, script: Scripted, tmp_path: Path
) -> None:
    (tmp_path / "x.pdb").write_bytes(CONTENT)
    script.will_say(Says(cut=True), ARTIFACT)
    assert connect(script.url).upload(tmp_path / "x.pdb").sha256 == SHA256
    assert [each.body for each in script.asked] == [CONTENT, CONTENT]
    assert script.paths[0] == "/v1/artifacts?name=x.pdb"
