"""A model's page: how its workers stand, why, and what an admin may want of them."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from foldline.catalog.models import Revision
from foldline.clock import database_now
from foldline.fleet.models import ModelPolicy, NodeWeights, ScalingDecision, Worker
from foldline.fleet.policies import STALE_S, wishes
from foldline.jobs.models import QueueState
from foldline.tenants.models import AuditEntry
from tests.conftest import MakeLive

pytestmark = pytest.mark.django_db
SCALING = "/admin/fleet/modelpolicy/"
GIB = 1024**3
FORM = {
    "min_workers": 0,
    "max_workers": 64,
    "pinned": "",
    "omega": 0.2,
    "floor_workers": 1,
    "floor_after_s": 0,
    "floor_step_s": 0,
}


@pytest.fixture
def toy(live_revision: MakeLive) -> Revision:
    return live_revision()


@pytest.fixture
def page(toy: Revision) -> str:
    return f"{SCALING}{toy.model_id}/change/"


def text(client: Client, url: str) -> str:
    shown = html.unescape(client.get(url).content.decode())
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", shown))


def decide(revision: Revision, *, ago_s: float = 0, **changes: Any) -> None:
    at = database_now() - timedelta(seconds=ago_s)
    told = {"at": at, "as_of": at, "desired": 2, "tier": "hot", "reason": "3 jobs wait", **changes}
    ScalingDecision.objects.create(revision=revision, **told)


def worker(revision: Revision, name: str = "w1", **changes: Any) -> None:
    now = database_now()
    told = {"node": "n", "pid": 1, "started_at": now, "last_seen": now, "state": "ready", **changes}
    Worker.objects.create(revision=revision, name=name, **told)


class TestTheList:
    def test_shows_every_model_with_what_was_decided_in_words(
        self, admin_client: Client, live_revision: MakeLive
    ) -> None:
        live_revision(name="other")
        decide(live_revision(name="toy"))
        shown = text(admin_client, SCALING)
        assert "0 of 2, hot: 3 jobs wait" in shown
        assert "0; no scaler has decided lately" in shown
        assert ModelPolicy.objects.count() == 2


class TestThePage:
    def test_of_a_model_nobody_has_decided_about_says_so(
        self, admin_client: Client, page: str
    ) -> None:
        shown = text(admin_client, page)
        for words in (
            "0 / ?",
            "No scaler has decided about it yet.",
            "not known: no scaler says so now",
            "not measured yet",
            "no worker of it has used a card",
        ):
            assert words in shown

    def test_shows_workers_beside_desired_the_reason_and_the_tier(
        self, admin_client: Client, toy: Revision, page: str
    ) -> None:
        worker(toy, "w1")
        worker(toy, "w2", state="busy")
        decide(toy, ago_s=60, desired=1, reason="nothing waits")
        decide(toy, desired=3, waiting=4, running=1, warnings=["card-1 is gone"])
        shown = text(admin_client, page)
        for words in ("2 / 3 (", "1 busy", "3 jobs wait", "4, 1", "hot", "card-1 is gone"):
            assert words in shown
        assert "nothing waits" in shown  # the history

    @pytest.mark.parametrize(
        ("zero_in_s", "present", "words"),
        [
            (300.0, True, "UTC, in 5 min, if no job comes"),
            (None, True, "not while it has work or a minimum"),
            (0.0, False, "it has no worker"),
        ],
    )
    def test_says_when_it_will_scale_to_zero(
        self,
        admin_client: Client,
        toy: Revision,
        page: str,
        zero_in_s: float | None,
        present: bool,  # noqa: FBT001 - a parameter of the test
        words: str,
    ) -> None:
        if present:
            worker(toy)
        decide(toy, zero_in_s=zero_in_s)
        assert words in text(admin_client, page)

    def test_does_not_pass_an_old_decision_off_as_standing(
        self, admin_client: Client, toy: Revision, page: str
    ) -> None:
        worker(toy)
        decide(toy, ago_s=STALE_S + 5, zero_in_s=10)
        shown = text(admin_client, page)
        assert "does the scaler run?" in shown
        assert "1 / ?" in shown
        assert "not known: no scaler says so now" in shown

    def test_shows_the_cold_start_as_it_was_measured(
        self, admin_client: Client, toy: Revision, page: str
    ) -> None:
        for number, total in enumerate((10, 20, 30, 40)):
            worker(toy, f"w{number}", state="gone", load_seconds={"total": total})
        assert "25.0 s, 40.0 s" in text(admin_client, page)

    def test_shows_a_cold_start_in_phases_and_by_node(
        self, admin_client: Client, toy: Revision, page: str
    ) -> None:
        for number, node in enumerate(("gpu-1", "gpu-2")):
            loaded = {"check_weights": 3.0 + number, "total": 9.0}
            placing = {"node": node, "image": 40.0}
            worker(toy, f"w{number}", state="gone", load_seconds=loaded, placing=placing)
        shown = text(admin_client, page)
        assert "image 40.0 s, 40.0 s; check_weights 3.5 s, 4.0 s; total 9.0 s, 9.0 s" in shown
        assert "… on gpu-2, of 1" in shown

    def test_shows_on_which_nodes_the_weights_are_as_reviewed(
        self, admin_client: Client, toy: Revision, page: str
    ) -> None:
        right = {"node": "gpu-1", "size_bytes": 5 * 2**20, "seconds": 0.4}
        NodeWeights.objects.create(revision=toy, at=database_now(), **right)
        wrong = {"node": "gpu-2", "trouble": "they have another hash"}
        NodeWeights.objects.create(revision=toy, at=database_now(), **wrong)
        shown = text(admin_client, page)
        assert "Weights on gpu-1as reviewed, 5.0" in shown
        assert "Weights on gpu-2they have another hash" in shown

    def test_shows_the_peak_the_suggestion_its_rule_and_the_flag(
        self, admin_client: Client, toy: Revision, page: str
    ) -> None:
        worker(toy, peak_gpu_bytes=20 * GIB, card_bytes=80 * GIB)
        piece = {"kind": "share", "bytes": 23 * GIB, "rule": "there is room", "warning": "too big"}
        decide(toy, piece=piece)
        shown = text(admin_client, page)
        for words in ("20.0 GiB of 80 GiB", "a share of 23 GiB: there is room", "Too big."):
            assert words in shown

    def test_shows_a_revision_before_the_live_one_while_it_has_workers(
        self, admin_client: Client, toy: Revision, page: str, live_revision: MakeLive
    ) -> None:
        worker(toy)
        live_revision()
        shown = text(admin_client, page)
        assert shown.index("toy@r2") < shown.index("toy@r1 (retired)")
        Worker.objects.update(state="gone")
        assert "toy@r1" not in text(admin_client, page)

    def test_escapes_what_others_wrote(
        self, admin_client: Client, toy: Revision, page: str
    ) -> None:
        decide(toy, reason="<script>alert(1)</script>")
        assert "<script>alert(1)" not in admin_client.get(page).content.decode()

    def test_is_not_for_everybody(self, client: Client, page: str, django_user_model: Any) -> None:
        client.force_login(django_user_model.objects.create_user("bob", is_staff=True))
        assert client.get(page).status_code == 403


class TestWhatIsWanted:
    def test_is_stored_and_audited(self, admin_client: Client, toy: Revision, page: str) -> None:
        assert (
            admin_client.post(page, {**FORM, "min_workers": 1, "max_workers": 3}).status_code == 302
        )
        policy = ModelPolicy.objects.get(model=toy.model)
        assert (policy.min_workers, policy.max_workers, policy.pinned) == (1, 3, None)
        entry = AuditEntry.objects.get(kind="fleet.modelpolicy", object_id=str(toy.model_id))
        assert (entry.actor, entry.changes["max_workers"]) == ("admin", [64, 3])

    @pytest.mark.parametrize(
        "name", ["sharing", "latency_strict", "rare_and_expensive", "several_cards"]
    )
    def test_what_decides_between_a_share_and_a_whole_card_is_set_here_and_audited(
        self, admin_client: Client, toy: Revision, page: str, name: str
    ) -> None:
        assert f'name="{name}"' in admin_client.get(page).content.decode()
        admin_client.post(page, {**FORM, name: "on"})
        assert getattr(wishes([toy.model_id])[toy.model_id], name) is True
        entry = AuditEntry.objects.get(kind="fleet.modelpolicy", object_id=str(toy.model_id))
        assert entry.changes[name] == [False, True]

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ({"min_workers": 5, "max_workers": 3}, "At least 5 and at most 3 workers cannot both"),
            ({"floor_workers": 9, "max_workers": 3}, "A right to 9 workers, of at most 3."),
            ({"pinned": 5000}, "At most 1000 workers."),
            ({"max_workers": 5000}, "At most 1000 workers."),
            ({"min_workers": -1}, "greater than or equal to 0"),
            ({"omega": -1}, "greater than or equal to 0"),
            ({"omega": "nan"}, "Enter a number."),
            ({"min_workers": ""}, "This field is required."),
        ],
    )
    def test_is_refused_in_words(
        self, admin_client: Client, page: str, wrong: dict[str, Any], words: str
    ) -> None:
        admin_client.get(SCALING)
        answer = admin_client.post(page, {**FORM, **wrong})
        assert answer.status_code == 200
        assert words in html.unescape(answer.content.decode())
        assert not ModelPolicy.objects.exclude(min_workers=0, max_workers=64, pinned=None).exists()

    def test_no_row_is_added_or_deleted_by_hand(self, admin_client: Client, page: str) -> None:
        admin_client.get(page)
        assert admin_client.get(f"{SCALING}add/").status_code == 403
        assert admin_client.post(page.replace("change", "delete")).status_code == 403


class TestActions:
    @pytest.fixture
    def act(self, admin_client: Client, toy: Revision, page: str) -> Any:
        admin_client.get(page)

        def post(name: str, **form: Any) -> Any:
            sent = {"_form_submitted": "on", **form}
            return admin_client.post(f"{SCALING}{toy.model_id}/{name}/", sent)

        return post

    def test_pause_and_resume(self, admin_client: Client, act: Any, page: str) -> None:
        assert "Resume" not in text(admin_client, page)
        act("pause_model", reason="new card")
        assert QueueState.objects.get().paused == "new card"
        shown = text(admin_client, page)
        assert "Paused: new card" in shown
        assert "Resume" in shown
        act("resume_model")
        assert QueueState.objects.get().paused == ""
        act("pause_model", reason="again")
        paused = [entry.changes.get("paused") for entry in AuditEntry.objects.order_by("pk")]
        assert [each for each in paused if each] == [
            [None, ""],
            ["", "new card"],
            ["new card", ""],
            ["", "again"],
        ]
        notes = [entry.changes.get("note") for entry in AuditEntry.objects.order_by("pk")]
        assert [None, "Paused: new card"] in notes
        assert [None, "Resumed."] in notes

    def test_pin_and_unpin(self, admin_client: Client, act: Any, page: str) -> None:
        assert "Unpin" not in text(admin_client, page)
        act("pin_workers", workers=2)
        assert ModelPolicy.objects.get().pinned == 2
        assert "Unpin" in text(admin_client, page)
        act("unpin_workers")
        assert ModelPolicy.objects.get().pinned is None
        changes = [entry.changes.get("pinned") for entry in AuditEntry.objects.order_by("pk")]
        assert [None, 2] in changes
        assert [2, None] in changes

    @pytest.mark.parametrize("workers", [-1, 1001, "many", ""])
    def test_a_pin_that_cannot_be_is_refused(self, act: Any, workers: Any) -> None:
        act("pin_workers", workers=workers)
        assert ModelPolicy.objects.get().pinned is None

    @pytest.mark.parametrize("name", ["pause_model", "resume_model", "pin_workers"])
    def test_who_may_only_look_does_nothing(
        self, client: Client, act: Any, toy: Revision, django_user_model: Any, name: str
    ) -> None:
        bob = django_user_model.objects.create_user("bob", is_staff=True)
        bob.user_permissions.add(Permission.objects.get(codename="view_modelpolicy"))
        client.force_login(bob)
        url = f"{SCALING}{toy.model_id}"
        assert client.get(f"{url}/change/").status_code == 200
        sent = {"_form_submitted": "on", "reason": "because", "workers": 2}
        assert client.post(f"{url}/{name}/", sent).status_code == 403
        assert client.post(f"{url}/change/", {**FORM, "min_workers": 1}).status_code == 403
        assert not ModelPolicy.objects.exclude(pinned=None, min_workers=0).exists()
        assert not QueueState.objects.exclude(paused="").exists()


@pytest.mark.parametrize("name", ["garbage", "00000000-0000-7000-8000-000000000000"])
def test_a_model_nobody_has_is_no_error(admin_client: Client, toy: Revision, name: str) -> None:
    assert admin_client.get(f"{SCALING}{name}/change/").status_code == 302
    sent = {"_form_submitted": "on", "workers": 2}
    assert admin_client.post(f"{SCALING}{name}/pin_workers/", sent).status_code == 403
