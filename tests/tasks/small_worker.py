"""Run as a program: hosts the hostile plugin for one act, as an undumpable worker does.

Arguments: repository root, a folder to work in, the act. Prints one JSON object with `result`
or `died`, and `left`, the processes beside itself that it can see in its own /proc.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

root, folder, act = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
sys.path.insert(0, str(root))

from tasks.host import (  # noqa: E402  # the path first
    Item,
    PluginDied,
    PluginHost,
    PluginSpec,
    make_undumpable,
)


def main() -> None:
    make_undumpable()
    host = PluginHost(
        PluginSpec(
            name="hostile",
            folder=root / "tests" / "plugins" / "hostile",
            entry="plugin:Hostile",
            python=Path(sys.executable),
            threads=1,
            device="cpu",
            weights=(),
            load_timeout_s=120,
            import_root=root,
            scratch=folder,
        )
    )
    host.start()
    while not host.ready.wait(0.1):
        if host.broken:
            sys.exit(f"{host.broken}")
    item = Item(
        job="job", attempt=1, inputs={"act": act}, seed=1, scratch=folder, checkpoints=folder
    )
    end = time.monotonic() + 3600
    told: dict[str, object] = {}
    try:
        [answer] = host.call(
            [item],
            seconds_left=lambda: end - time.monotonic(),
            stop=lambda: None,
            progress=lambda job, progress: None,
        )
        told["result"] = answer.result
    except PluginDied as died:
        told["died"] = died.code
    host.stop()
    told["left"] = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
