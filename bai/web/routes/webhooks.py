"""What forges tell: a branch has moved. The loops then look at once; what they find is theirs to judge."""

from __future__ import annotations

import time

from fastapi import APIRouter, HTTPException, Request
from starlette.concurrency import run_in_threadpool

from bai.web.dependencies import Loops, ResponseDocs
from bai.web.response_models import Refusal
from reconciler.gitops.webhook_verifier import WebhookMessage, WebhookVerifier

router = APIRouter(prefix="/hooks", tags=["webhooks"])
_ANSWERS: ResponseDocs = {
    401: {"model": Refusal, "description": "The message is not signed with the secret."},
    404: {"model": Refusal, "description": "This server hears no webhooks."},
    413: {"model": Refusal, "description": "The message is too large."},
    429: {"model": Refusal, "description": "Too many messages."},
}


@router.post(
    "/git",
    status_code=202,
    summary="A push, from GitHub, GitLab, Gitea, Forgejo or Bitbucket",
    responses=_ANSWERS,
)
async def git(request: Request, loops: Loops) -> dict[str, str]:
    webhook_verifier: WebhookVerifier | None = request.app.state.webhook_verifier
    if webhook_verifier is None:
        raise HTTPException(404, "no secret for webhooks is set")
    sender = request.client.host if request.client else ""
    message = webhook_verifier.receive(request.headers)
    if most := webhook_verifier.max_body_bytes(message, sender, time.monotonic()):
        await _read_body(request, message, most)
    verdict = webhook_verifier.verify(message, sender, time.monotonic())
    if verdict == "untrue":
        raise HTTPException(401, "the message is not signed with the secret")
    if verdict == "too often":
        raise HTTPException(429, "too many messages", headers={"Retry-After": "1"})
    if verdict == "moved":
        await run_in_threadpool(loops.wake)
    return {"verdict": verdict}


async def _read_body(request: Request, message: WebhookMessage, most: int) -> None:
    """Answers 413 when it is more."""
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise HTTPException(413, "the message is too large")
        message.add(part)
