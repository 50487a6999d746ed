from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from foldline.catalog.models import Revision
from foldline.jobs import tickets
from foldline.jobs.admission import Submission, admit
from foldline.jobs.services import claim
from foldline.tenants.models import Tenant
from tasks.attempt import Attempt
from tasks.messages import Answer, OutputFile
from tests.conftest import MakeLive


@pytest.fixture
def revision(live_revision: MakeLive) -> Revision:
    return live_revision()


@pytest.mark.django_db(transaction=True)
def test_an_answer_whose_tenant_was_deleted_meanwhile_is_dropped_at_once(
    tenant: Tenant, revision: Revision, tmp_path: Path
) -> None:
    admit(
        Submission(
            tenant_id=tenant.id,
            model_id=revision.model_id,
            revision_id=revision.id,
            queue=tickets.queue_name("toy", number=1),
            inputs={},
            normalized_input={},
            seed=0,
            seed_origin="default",
            fingerprint="f" * 64,
            payload_digest="",
        )
    )
    claimed = claim(revision_id=revision.id, owner="w1")
    made = tmp_path / "made"
    made.write_bytes(b"ATOM")

    def call(items: Any, **_: Any) -> list[Answer]:
        tenant.delete()
        file = OutputFile(name="made", path=made, media_type="chemical/x-pdb")
        return [Answer(job=item.job, result={}, files=(file,)) for item in items]

    host: Any = SimpleNamespace(call=call, peak_rss_bytes=0, peak_gpu_bytes=0)
    heartbeat: Any = SimpleNamespace(hold=lambda fences: None, release=lambda: None)
    (outcome,) = Attempt(claimed, scratch=tmp_path / "scratch").run(host, heartbeat)
    assert (outcome.state, outcome.code) == ("lost", "fenced")
