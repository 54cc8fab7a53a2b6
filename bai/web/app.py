"""All routes together."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from bai import __version__
from bai.web.auth.roles import Access
from bai.web.hub import Hub
from bai.web.metrics import Counted, Metrics
from bai.web.openapi import described
from bai.web.request_limits import PATIENCE, Limits
from bai.web.routes import audits, clusters, directives, events, health, logs, webhooks
from reconciler.gitops.webhook_verifier import Ears
from schemas.problems.errors import BaiError

_ABOUT = """What the loops of this server see, and orders to them. Everything is read from the last pass of a
loop and from the store: no request but for logs asks a node.

Who asks sends `Authorization: Bearer ...`: a token of the access file, or one that an identity provider has
signed. Viewers of some projects get what is theirs; what is about all projects at once answers 403 to them,
what is another project's 404."""


def create_app(hub: Hub, access: Access, ears: Ears | None = None, *, patience: float = PATIENCE) -> FastAPI:
    """The API of these loops; `ears` judges webhooks, None hears none. An answer begins within `patience`
    seconds."""
    app = FastAPI(title="bai", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None)
    app.state.hub, app.state.access, app.state.ears = hub, access, ears
    app.state.metrics = Metrics(hub)
    for routes in (health, webhooks, clusters, audits, logs, events, directives):
        app.include_router(routes.router)
    app.add_exception_handler(BaiError, _failed)
    app.add_exception_handler(RequestValidationError, _wrong)
    app.add_middleware(Counted, metrics=app.state.metrics)
    app.add_middleware(Limits, patience=patience)
    app.openapi = lambda: app.openapi_schema or _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    app.openapi_schema = described(app)
    return app.openapi_schema


def _failed(request: Request, error: Exception) -> JSONResponse:
    """What could not be read just now, in words."""
    code = error.code if isinstance(error, BaiError) else ""
    return JSONResponse({"detail": str(error), "code": code}, 503, headers={"Retry-After": "2"})


def _wrong(request: Request, error: Exception) -> JSONResponse:
    """What of a request is not as it is described, in words."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    said = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)
    return JSONResponse({"detail": "; ".join(said), "code": ""}, 422)
