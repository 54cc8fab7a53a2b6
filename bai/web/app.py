"""All routes together."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from bai import __version__
from bai.web.apps.routes import links as app_links
from bai.web.apps.routes import opening as app_opening
from bai.web.apps.routes import sharing as app_sharing
from bai.web.apps.table import AppTable
from bai.web.auth.roles import Access
from bai.web.cluster_loops import ClusterLoops
from bai.web.dependencies import RETRY_AFTER
from bai.web.metrics import Metrics, RequestMetrics
from bai.web.openapi import openapi_document
from bai.web.panel.administration import routes as administration
from bai.web.panel.files import routes as file_pages
from bai.web.panel.files import uploads
from bai.web.panel.files.transfers import Transfers
from bai.web.panel.login import routes as login
from bai.web.panel.login.code_flow import CodeFlow
from bai.web.panel.numbers import routes as numbers_pages
from bai.web.panel.options import DEFAULT_OPTIONS, PanelOptions
from bai.web.panel.pages import Panel
from bai.web.panel.plans import order_routes, plan_routes
from bai.web.panel.plans.commit_reviews import CommitReviews
from bai.web.panel.plans.planning_queue import PlanningQueue
from bai.web.panel.proposals import routes as proposals
from bai.web.panel.proposals.desk import ProposalDesks
from bai.web.panel.routes import (
    cluster_pages,
    live_news,
    report_pages,
    session_pages,
    static_files,
)
from bai.web.panel.terminal import routes as terminal_pages
from bai.web.panel.terminal.terminals import Terminals
from bai.web.request_limits import ANSWER_TIMEOUT, RequestLimits
from bai.web.routes import (
    audits,
    clusters,
    commands,
    directives,
    events,
    health,
    logins,
    logs,
    services,
    usage,
    webhooks,
)
from reconciler.gitops.webhook_verifier import WebhookVerifier
from schemas.problems.errors.base import BaiError

_ABOUT = """What the loops of this server see, and orders to them. Everything is read from the last pass of a
loop and from the store: no request but for logs and use asks a node.

Who asks sends `Authorization: Bearer ...`: a token of the access file, or one that an identity provider has
signed. Viewers of some projects get what is theirs; what is about all projects at once answers 403 to them,
what is another project's 404."""

_MODULES = (
    health, webhooks, logins, commands, clusters, audits, logs, usage, events, directives, services,
    app_links,
)  # fmt: skip
_PAGES = (
    login, static_files, live_news, cluster_pages, session_pages, file_pages, uploads, terminal_pages,
    plan_routes, order_routes, report_pages, administration, proposals, numbers_pages, app_opening,
    app_sharing,
)  # fmt: skip


def create_app(
    loops: ClusterLoops,
    access: Access,
    webhook_verifier: WebhookVerifier | None = None,
    options: PanelOptions = DEFAULT_OPTIONS,
    *,
    answer_timeout: float = ANSWER_TIMEOUT,
) -> FastAPI:
    """The API of these loops, and pages; `webhook_verifier` judges webhooks, None hears none. An answer
    begins within `answer_timeout` seconds."""
    modules = (*_MODULES, *_PAGES)
    routes = [route for module in modules for route in module.router.routes]  # included, each is made anew
    app = FastAPI(
        title="bai", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None, routes=routes
    )
    app.state.loops, app.state.access, app.state.webhook_verifier = loops, access, webhook_verifier
    app.state.metrics, app.state.panel = Metrics(loops), Panel(loops, options.cookie_secret)
    app.state.code_flow = CodeFlow(app.state.panel.sealer, options.public_url)
    app.state.apps = AppTable(loops)
    app.state.transfers, app.state.largest_upload = Transfers(), options.largest_upload
    app.state.planning = planning = PlanningQueue()
    app.state.proposals = ProposalDesks(loops.clusters, options.proposals, planning)
    find_forge = options.proposals.find_forge
    app.state.reviews = {
        name: CommitReviews(each, planning, find_forge) for name, each in loops.clusters.items()
    }
    app.state.terminals = Terminals()
    app.add_exception_handler(BaiError, _on_bai_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_middleware(RequestMetrics, metrics=app.state.metrics)
    app.add_middleware(RequestLimits, answer_timeout=answer_timeout, largest_upload=options.largest_upload)
    app.openapi = lambda: app.openapi_schema or _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    app.openapi_schema = openapi_document(app)
    return app.openapi_schema


def _on_bai_error(request: Request, error: Exception) -> JSONResponse:
    """What could not be read just now, in words."""
    code = error.code if isinstance(error, BaiError) else ""
    return JSONResponse({"detail": str(error), "code": code}, 503, headers={"Retry-After": RETRY_AFTER})


def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    """What of a request is not as it is described, in words."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    messages = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)
    return JSONResponse({"detail": "; ".join(messages), "code": ""}, 422)
