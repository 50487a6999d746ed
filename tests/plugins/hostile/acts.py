"""What a hostile plugin tries. Names of processes it leaves behind go to `pids` in its scratch."""

from __future__ import annotations

import ctypes
import fcntl
import json
import math
import os
import signal
import struct
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from model_plugins.base import Inputs, JobContext

PRINTED_BYTES = 50_000_000
PR_SET_PDEATHSIG = 1


class Acts:
    def __init__(self, inputs: Inputs, context: JobContext) -> None:
        self.inputs = inputs
        self.context = context

    def behave(self) -> dict[str, Any]:
        return {"act": "behave", "cwd": os.getcwd()}

    def claim_a_card(self) -> dict[str, Any]:
        """As if torch had reserved 11 GiB of one."""
        cuda = SimpleNamespace(
            is_initialized=lambda: True,
            device_count=lambda: 1,
            max_memory_reserved=lambda card: 11 * 2**30,
        )
        sys.modules["torch"] = SimpleNamespace(cuda=cuda)  # type: ignore[assignment]  # a stand-in
        return {}

    # --- looking around ---

    def read_environment(self) -> dict[str, Any]:
        return dict(os.environ)

    def read_files(self) -> dict[str, Any]:
        return {path: _attempt(path) for path in self.inputs["paths"]}

    def read_ancestors(self) -> dict[str, Any]:
        """Environment, memory map and descriptors of the keeper and of every process above."""
        found = {}
        pid = os.getppid()
        while pid > 1:
            for part in ("environ", "maps", "fd/3"):
                found[f"{pid}/{part}"] = _attempt(f"/proc/{pid}/{part}")
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return found

    def list_descriptors(self) -> dict[str, Any]:
        return {str(number): target for number, target in _descriptors()}

    # --- leaving something behind ---

    def leave_child(self) -> dict[str, Any]:
        self._leave_process(own_session=False)
        return {}

    def leave_child_in_own_session(self) -> dict[str, Any]:
        self._leave_process(own_session=True)
        return {}

    def leave_child_and_exit(self) -> dict[str, Any]:
        self._leave_process(own_session=True)
        os._exit(0)

    def leave_child_and_hang(self) -> dict[str, Any]:
        self._leave_process(own_session=False)
        self._leave_process(own_session=True)
        self.hang()

    def leave_threads(self) -> dict[str, Any]:
        for _ in range(20):
            threading.Thread(target=time.sleep, args=(3600,), daemon=False).start()
        return {}

    def change_folder(self) -> dict[str, Any]:
        os.chdir("/")
        return {}

    # --- ending ---

    def exit_0(self) -> NoReturn:
        os._exit(0)

    def exit_3(self) -> NoReturn:
        os._exit(3)

    def raise_system_exit(self) -> NoReturn:
        self.leave_threads()
        sys.exit(4)

    def segfault(self) -> NoReturn:
        ctypes.string_at(0)
        raise AssertionError("unreachable")

    def kill_itself(self) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    def kill_keeper(self) -> NoReturn:
        os.kill(os.getppid(), signal.SIGKILL)
        self.hang()

    # --- going on for ever ---

    def hang(self) -> NoReturn:
        self._note(os.getpid())
        while True:
            time.sleep(60)

    def hang_until_sigterm(self) -> NoReturn:
        def leave(*_: object) -> None:
            (self.context.scratch / "got-sigterm").touch()
            os._exit(0)

        signal.signal(signal.SIGTERM, leave)
        self.hang()

    def hang_ignoring_sigterm(self) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._leave_process(own_session=True)
        self.hang()

    def hang_with_stopped_keeper(self) -> NoReturn:
        self._leave_process(own_session=True)
        os.kill(os.getppid(), signal.SIGSTOP)
        self.hang()

    def suspend_itself(self) -> NoReturn:
        self._note(os.getpid())
        os.kill(os.getpid(), signal.SIGSTOP)
        raise AssertionError("unreachable")

    def tell_pid(self) -> dict[str, Any]:
        return {"pid": os.getpid()}

    def flood_with_progress(self) -> NoReturn:
        frame = {"v": 1, "type": "progress", "job": self.context.job_id, "fraction": 0.5}
        while True:
            self._send_raw(_framed(frame))

    # --- talking nonsense ---

    def print_much(self) -> dict[str, Any]:
        line = "x" * 199 + "\n"
        for _ in range(PRINTED_BYTES // len(line)):
            sys.stdout.write(line)
        sys.stderr.write("\0\x1b[31m one endless line " + "y" * 1_000_000)
        return {}

    def write_garbage_everywhere(self) -> NoReturn:
        for number, _ in _descriptors():
            _write(number, b"\xff garbage \xff" * 10)
        self.hang()

    def write_no_json(self) -> NoReturn:
        self._send_raw(struct.pack(">I", 5) + b"hello")
        self.hang()

    def announce_too_much(self) -> NoReturn:
        self._send_raw(struct.pack(">I", 2**31))
        self.hang()

    def send_half_a_frame(self) -> NoReturn:
        self._send_raw(struct.pack(">I", 100) + b"{")
        self.hang()

    def answer_for_another(self) -> NoReturn:
        item = {"job": "another", "result": {"stolen": True}, "files": [], "warnings": []}
        self._forge([item])

    def claim_worker_lost(self) -> NoReturn:
        error = {"code": "worker_lost", "message": ["\0\ud800", 1], "details": {"x": "y" * 99999}}
        self._forge([{"job": self.context.job_id, "error": error, "warnings": "none"}])

    def forge_nan(self) -> NoReturn:
        body = b'{"v":1,"type":"done","call":1,"items":[{"job":"a","result":{"x":NaN}}]}'
        self._send_raw(struct.pack(">I", len(body)) + body)
        self.hang()

    def forge_infinity(self) -> NoReturn:
        self._forge(
            [{"job": self.context.job_id, "result": {"x": "INF"}}], replace=('"INF"', "1e999")
        )

    def close_answer_pipe(self) -> NoReturn:
        for number, target in _descriptors():
            if number > 2 and target.startswith("pipe:") and _is_for_writing(number):
                os.close(number)
        self.hang()

    def close_descriptors_and_answer(self) -> dict[str, Any]:
        os.closerange(0, 4096)
        return {}

    # --- answers that are none ---

    def return_nan(self) -> dict[str, Any]:
        return {"score": math.nan}

    def return_list(self) -> Any:
        return [1, 2, 3]

    def return_object(self) -> dict[str, Any]:
        return {"thing": {"inside": object()}}

    def return_cycle(self) -> dict[str, Any]:
        loop: dict[str, Any] = {}
        loop["loop"] = loop
        return loop

    def return_nul(self) -> dict[str, Any]:
        return {"text": "a\0b"}

    def return_surrogate(self) -> dict[str, Any]:
        return {"text": "\ud800"}

    def return_too_much(self) -> dict[str, Any]:
        return {"text": "x" * 70_000}

    def announce_file_only(self) -> dict[str, Any]:
        return {"file": self.context.output("never.txt", media_type="text/plain")}

    def refer_to_strange_file(self) -> dict[str, Any]:
        return {"file": {"$file": "strange.txt"}}

    def link_out(self) -> dict[str, Any]:
        file = self.context.output("secret.txt", media_type="text/plain")
        file.path.symlink_to(self.inputs["paths"][0])
        return {"file": file}

    def hard_link_out(self) -> dict[str, Any]:
        file = self.context.output("secret.txt", media_type="text/plain")
        os.link(self.inputs["paths"][0], file.path)
        return {"file": file}

    def name_file_outside(self) -> dict[str, Any]:
        return {"file": self.context.output("../../outside.txt", media_type="text/plain")}

    def run_out_of_memory(self) -> NoReturn:
        with open(self.inputs["paths"][0], "a") as file:
            file.write("once\n")
        raise MemoryError

    def allocate(self) -> dict[str, Any]:
        held = []
        while True:
            held.append(bytearray(16 * 1024 * 1024))

    def allocate_until_killed(self) -> NoReturn:
        held = []
        while True:
            held.append(b"x" * 16 * 1024 * 1024)

    def raise_error(self) -> NoReturn:
        raise RuntimeError("no\0 good " + "z" * 100_000)

    # --- tools ---

    def _leave_process(self, *, own_session: bool) -> None:
        child = os.fork()
        if child == 0:
            if own_session:
                os.setsid()
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(60)
        self._note(child)

    def _note(self, pid: int) -> None:
        with (self.context.scratch / "pids").open("a") as file:
            file.write(f"{pid}\n")

    def _forge(self, items: list[Any], *, replace: tuple[str, str] = ("", "")) -> NoReturn:
        frame = {"v": 1, "type": "done", "call": 1, "items": items}
        self._send_raw(_framed(frame, replace=replace))
        self.hang()

    def _send_raw(self, data: bytes) -> None:
        for number, target in _descriptors():
            if number > 2 and target.startswith("pipe:"):
                _write(number, data)


def _descriptors() -> list[tuple[int, str]]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except OSError:
            continue
    return found


def _framed(frame: dict[str, Any], *, replace: tuple[str, str] = ("", "")) -> bytes:
    body = (
        json.dumps(frame).replace(*replace).encode() if replace[0] else json.dumps(frame).encode()
    )
    return struct.pack(">I", len(body)) + body


def _is_for_writing(number: int) -> bool:
    return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


def _write(number: int, data: bytes) -> None:
    try:
        os.write(number, data)
    except OSError:
        return


def _attempt(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(2000).decode("utf-8", "replace").replace("\0", "\n")
    except OSError as error:
        return f"refused: {error.strerror}"
