"""The part of the identity provider that browsers see: a page to log in, one to log out, and the
authorization code grant with PKCE between them."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc7636 import CodeChallenge
from flask import Flask, Response, redirect, request

_COOKIE = "lab-login"
_PAGE = """<!doctype html><html lang="en"><title>{title}</title><main><h1>{title}</h1>
<form method="post">{fields}<button>{button}</button></form></main></html>"""
_WHO = '<label>User <input name="user"></label>'


@dataclass
class _Code:
    """What a code was given for."""

    client_id: str
    redirect_uri: str
    scope: str
    user: Mapping[str, Any]
    code_challenge: str
    code_challenge_method: str

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass
class CodeGrantLab:
    """`users` and their claims; `errors` is what users are answered with who may not. `answers`: parameters
    that every answer to a browser has beside the usual, or in its place."""

    users: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: dict[str, Mapping[str, str]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    ended: list[Mapping[str, str]] = field(default_factory=list)
    """With what logins were ended here."""
    _codes: dict[str, _Code] = field(default_factory=dict)

    def add_to(self, app: Flask, authorization: AuthorizationServer, issuer: str) -> None:
        authorization.register_grant(self._grant(), [CodeChallenge(required=True)])

        @app.get("/authorize")
        def who() -> Any:
            if request.cookies.get(_COOKIE):
                return self._answer(authorization, issuer, request.cookies[_COOKIE])
            return _page("Who are you?", _WHO, "Go on")

        @app.post("/authorize")
        def authorize() -> Any:
            return self._answer(authorization, issuer, request.form["user"])

        @app.get("/favicon.ico")
        def icon() -> Response:
            return Response(status=204)

        @app.get("/logout")
        def ask() -> Any:
            return _page(f"Log out of {request.args['client_id']}?", "", "Log out")

        @app.post("/logout")
        def log_out() -> Any:
            self.ended.append(dict(request.args))
            gone = redirect(request.args["post_logout_redirect_uri"], 303)
            gone.delete_cookie(_COOKIE)
            return gone

    def _answer(self, authorization: AuthorizationServer, issuer: str, user: str) -> Any:
        if user in self.errors:
            back = {**self.errors[user], "state": request.args["state"], "iss": issuer, **self.answers}
            return redirect(f"{request.args['redirect_uri']}?{urlencode(back)}", 303)
        grant = authorization.get_consent_grant(end_user=user)
        given = authorization.create_authorization_response(request, grant_user=user, grant=grant)
        given.location += f"&{urlencode({'iss': issuer, **self.answers})}"
        given.set_cookie(_COOKIE, user, httponly=True)
        return given

    def _grant(self) -> type[grants.AuthorizationCodeGrant]:
        lab = self

        class Grant(grants.AuthorizationCodeGrant):  # type: ignore[misc]
            TOKEN_ENDPOINT_AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")

            def save_authorization_code(self, code: str, request: Any) -> None:
                asked = request.payload.data
                claims = {"sub": f"id-of-{request.user}", **lab.users.get(request.user, {})}
                lab._codes[code] = _Code(
                    request.payload.client_id, asked["redirect_uri"], request.payload.scope,
                    {**claims, "nonce": asked["nonce"]},
                    asked["code_challenge"], asked["code_challenge_method"],
                )  # fmt: skip

            def query_authorization_code(self, code: str, client: ClientMixin) -> _Code | None:
                found = lab._codes.get(code)
                return found if found and found.client_id == client.get_client_id() else None

            def delete_authorization_code(self, authorization_code: _Code) -> None:
                for code in [code for code, each in lab._codes.items() if each is authorization_code]:
                    del lab._codes[code]

            def authenticate_user(self, authorization_code: _Code) -> Mapping[str, Any]:
                return authorization_code.user

        return Grant


def _page(title: str, fields: str, button: str) -> Response:
    return Response(_PAGE.format(title=html.escape(title), fields=fields, button=button))
