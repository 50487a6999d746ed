"""What a run on a stage leaves behind, for the checker, on either database."""

from __future__ import annotations

from pathlib import Path

from benchmarks.chaos.evidence import AttemptRow, Evidence, JobRow, hashes
from benchmarks.chaos.history import read


def gathered(*, histories: Path, artifacts: Path) -> Evidence:
    """Of a tenant without limits. Django is set up."""
    from foldline.jobs.models import Job

    jobs = [_job(each) for each in Job.objects.prefetch_related("events", "attempts")]
    return Evidence(
        history=read(histories), jobs={job.id: job for job in jobs}, files=hashes(artifacts)
    )


def _job(row: object) -> JobRow:
    from foldline.jobs.models import Job

    assert isinstance(row, Job)
    events = sorted(row.events.all(), key=lambda each: each.sequence)
    attempts = sorted(row.attempts.all(), key=lambda each: each.number)
    return JobRow(
        id=str(row.id),
        key=row.idempotency_key,
        token=row.session,
        state=row.state,
        attempt=row.attempt,
        gpu_seconds=row.gpu_seconds,
        result=row.result,
        events=tuple((each.kind, each.data, each.at.timestamp()) for each in events),
        attempts=tuple(
            AttemptRow(
                number=each.number,
                worker=each.worker,
                outcome=each.outcome,
                gpu_seconds=each.gpu_seconds,
                began=each.started_at.timestamp(),
                ended=each.ended_at.timestamp() if each.ended_at else None,
            )
            for each in attempts
        ),
    )
