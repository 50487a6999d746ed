from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from model_plugins.frames import FrameError, encode
from tasks.channel import Channel, Closed


class Enough(Exception):
    pass


class Times:
    """A check that raises at its nth time."""

    def __init__(self, allowed: int) -> None:
        self.left = allowed

    def __call__(self) -> None:
        if self.left == 0:
            raise Enough
        self.left -= 1


class Ends:
    """A channel, the other ends of its pipes, and a pipe that stands for the process."""

    def __init__(self) -> None:
        self.theirs_read, ours_write = os.pipe()
        ours_read, self.theirs_write = os.pipe()
        watch, self.process = os.pipe()
        self.channel = Channel(reads=ours_read, writes=ours_write, watch=watch)
        self._open = {self.theirs_read, self.theirs_write, self.process}
        self._ours = {ours_read, ours_write, watch}

    def shut(self, descriptor: int) -> None:
        os.close(descriptor)
        self._open.discard(descriptor)

    def close(self) -> None:
        for descriptor in self._open | self._ours:
            os.close(descriptor)


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def test_frames_arrive_whole_and_in_order(ends: Ends) -> None:
    os.write(ends.theirs_write, encode("one") + encode("two")[:7])
    assert ends.channel.receive(check=Times(5))["type"] == "one"

    os.write(ends.theirs_write, encode("two")[7:])
    assert ends.channel.receive(check=Times(5))["type"] == "two"


def test_half_a_frame_is_kept_when_the_check_ends_the_wait(ends: Ends) -> None:
    frame = encode("whole")
    os.write(ends.theirs_write, frame[:9])
    with pytest.raises(Enough):
        ends.channel.receive(check=Times(2))

    os.write(ends.theirs_write, frame[9:])

    assert ends.channel.receive(check=Times(5))["type"] == "whole"


def test_the_check_is_asked_between_frames_too(ends: Ends) -> None:
    os.write(ends.theirs_write, encode("one") * 3)
    check = Times(3)

    assert [ends.channel.receive(check=check)["type"] for _ in range(2)] == ["one", "one"]
    with pytest.raises(Enough):
        ends.channel.receive(check=check)


def test_a_closed_pipe_is_noticed(ends: Ends) -> None:
    ends.shut(ends.theirs_write)

    with pytest.raises(Closed):
        ends.channel.receive(check=Times(5))


def test_the_end_of_the_process_is_noticed_though_somebody_holds_the_pipe(ends: Ends) -> None:
    os.write(ends.theirs_write, encode("last"))
    os.write(ends.process, b"x")

    assert ends.channel.receive(check=Times(5))["type"] == "last"
    with pytest.raises(Closed):
        ends.channel.receive(check=Times(5))


def test_garbage_is_refused(ends: Ends) -> None:
    os.write(ends.theirs_write, b"\xff" * 100)

    with pytest.raises(FrameError):
        ends.channel.receive(check=Times(5))


def test_a_frame_nobody_reads_cannot_be_sent_for_ever(ends: Ends) -> None:
    with pytest.raises(Enough):
        ends.channel.send(encode("big", padding="x" * 1_000_000), check=Times(3))


def test_a_big_frame_arrives_at_a_slow_reader(ends: Ends) -> None:
    frame = encode("big", padding="x" * 1_000_000)
    got: list[bytes] = []

    def read() -> None:
        while sum(map(len, got)) < len(frame):
            got.append(os.read(ends.theirs_read, 5000))

    reader = threading.Thread(target=read)
    reader.start()
    ends.channel.send(frame, check=lambda: None)
    reader.join()

    assert b"".join(got) == frame


def test_sending_to_nobody_is_noticed(ends: Ends) -> None:
    ends.shut(ends.theirs_read)

    with pytest.raises(Closed):
        ends.channel.send(encode("one"), check=Times(5))
