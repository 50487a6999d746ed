"""Links that fetch one file without a key: signed, and good for a few minutes.

For what cannot send a header: a browser, a viewer, another tool. Who has the link has the
file, so it ends soon; a new one costs one request.
"""

from __future__ import annotations

from uuid import UUID

from django.core import signing

from foldline.artifacts.models import Artifact
from foldline.artifacts.selectors import artifact_of
from foldline.errors import ArtifactNotFound, LinkExpired

LINK_S = 600
_SALT = "foldline.artifacts.links"


def token_for(artifact_id: UUID, *, tenant_id: UUID) -> str:
    """What stands for the tenant's file in a link, from now on for `LINK_S` seconds."""
    return _signer().sign_object([artifact_id.hex, tenant_id.hex])


def artifact_behind(token: str) -> Artifact:
    """Raises LinkExpired; ArtifactNotFound for a token that is none of ours, for a file that is
    gone and for one whose tenant has been switched off."""
    try:
        artifact, tenant = _signer().unsign_object(token, max_age=LINK_S)
    except signing.SignatureExpired:
        raise LinkExpired from None
    except signing.BadSignature:
        raise ArtifactNotFound from None
    found = artifact_of(tenant_id=UUID(tenant), artifact_id=UUID(artifact))
    if not found.tenant.active:
        raise ArtifactNotFound
    return found


def _signer() -> signing.TimestampSigner:
    return signing.TimestampSigner(salt=_SALT)
