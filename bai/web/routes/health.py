"""For whoever looks after this process: is it alive, is it ready, how is it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from pydantic import BaseModel

from bai.web.auth.roles import scraper
from bai.web.dependencies import Loops, ResponseDocs, error_responses
from bai.web.response_models import Refusal

router = APIRouter(tags=["probes"])
_UNAVAILABLE: ResponseDocs = {503: {"model": Refusal, "description": "No, and why."}}
_READINESS: ResponseDocs = {**_UNAVAILABLE, 422: error_responses()[422]}
_STANDBY = "A replica that stands by for one that leads counts as ready, too."


class Well(BaseModel):
    status: str = "ok"


@router.get("/healthz", summary="Whether the process should live", responses=_UNAVAILABLE)
async def healthy(loops: Loops) -> Well:
    """Not when a loop broke, or is at work without a sign of life for too long: start the process anew."""
    if why := loops.stuck_reason():
        raise HTTPException(503, why)
    return Well()


@router.get("/readyz", summary="Whether requests can be answered", responses=_READINESS)
async def ready(loops: Loops, standby: Annotated[bool, Query(description=_STANDBY)] = False) -> Well:
    """Not before every loop has seen its cluster, and not while another replica leads."""
    if why := loops.unready_reason(standby=standby):
        raise HTTPException(503, why)
    return Well()


@router.get(
    "/metrics",
    summary="For Prometheus",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Metrics."},
        **error_responses(),
    },
)
def metrics(request: Request, may: Annotated[None, Depends(scraper)]) -> Response:
    """For viewers of all projects, or for everybody where the access file says `metrics: everybody`."""
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)
