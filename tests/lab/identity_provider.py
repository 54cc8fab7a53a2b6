"""An identity provider with the device grant and the one of browsers (`code_grant`): Authlib's own
implementation of RFC 8628, 6749 and 7636, on a port of its own."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import jwt
from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict
from cryptography.hazmat.primitives.asymmetric import rsa
from flask import Flask, Response, jsonify
from werkzeug.serving import make_server

from tests.lab.code_grant import CodeGrantLab

_KEY_ID = "lab"


class _Client(ClientMixin):  # type: ignore[misc]
    def __init__(self, name: str, secret: str) -> None:
        self.client_id, self._secret = name, secret

    def get_client_id(self) -> str:
        return self.client_id

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def get_default_redirect_uri(self) -> str:
        return ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri.endswith("/login/oidc/callback")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self._secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return (method == "none") == (not self._secret)

    def check_grant_type(self, grant_type: str) -> bool:
        return True


class _RefreshToken:
    """What one login may be renewed with; once each."""

    def __init__(self, client: str, scope: str) -> None:
        self.client, self.scope = client, scope

    def check_client(self, client: ClientMixin) -> bool:
        return bool(client.get_client_id() == self.client)

    def get_scope(self) -> str:
        return self.scope


@cache
def _key() -> rsa.RSAPrivateKey:
    """One for all providers of a process: to make one takes longer than most logins."""
    return rsa.generate_private_key(65537, 2048)


class IdentityProviderLab:
    """`people` are user codes that somebody has typed in → the claims of whoever did; `denied` those who said
    no. `requests` holds the grants that were asked for. `certificate`: files of one, and its key."""

    client_id = "bai-cli"

    def __init__(self, host: str = "127.0.0.1", certificate: tuple[str, str] | None = None) -> None:
        self.people: dict[str, Mapping[str, Any]] = {}
        self.denied: set[str] = set()
        self.requests: list[str] = []
        self.lifetime = 3600.0
        """Seconds for which an ID token is good."""
        self.secret = ""
        """Of the client; without one it is public."""
        self.changes: dict[str, Any] = {}
        """Claims that all tokens have from now on, whatever is true."""
        self.metadata: dict[str, Any] = {}
        """What the discovery document has beside the usual."""
        self.browsers = CodeGrantLab()
        self._key = _key()
        self._codes: dict[str, dict[str, Any]] = {}
        self._refresh: dict[str, tuple[_RefreshToken, Mapping[str, Any]]] = {}
        app = Flask(__name__)
        self._server = make_server(host, 0, app, threaded=True, ssl_context=certificate)
        self.issuer = f"{'https' if certificate else 'http'}://{host}:{self._server.server_port}"
        self._add_routes(app)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def waiting(self) -> list[str]:
        """User codes that nobody has typed in yet."""
        codes = list(self._codes.values())  # More may come meanwhile.
        return [each["user_code"] for each in codes if each["user_code"] not in self.people]

    def revoke(self) -> None:
        """No login can be renewed any more."""
        self._refresh.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _add_routes(self, app: Flask) -> None:
        authorization = AuthorizationServer(
            app,
            query_client=lambda name: _Client(name, self.secret) if name == self.client_id else None,
            save_token=self._save_token,
        )
        authorization.register_endpoint(self._device_endpoint())
        authorization.register_grant(self._device_grant())
        authorization.register_grant(self._refresh_grant())
        self.browsers.add_to(app, authorization, self.issuer)

        @app.get("/.well-known/openid-configuration")
        def discovery() -> Response:
            return jsonify(
                issuer=self.issuer, jwks_uri=f"{self.issuer}/keys", token_endpoint=f"{self.issuer}/token",
                device_authorization_endpoint=f"{self.issuer}/device",
                authorization_endpoint=f"{self.issuer}/authorize",
                end_session_endpoint=f"{self.issuer}/logout",
                authorization_response_iss_parameter_supported=True,
                scopes_supported=["openid", "profile", "email", "offline_access"],
                **self.metadata,
            )  # fmt: skip

        @app.get("/keys")
        def keys() -> Response:
            public = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
            return jsonify(keys=[{**public, "kid": _KEY_ID, "use": "sig"}])

        @app.post("/device")
        def device() -> Any:
            return authorization.create_endpoint_response(DeviceAuthorizationEndpoint.ENDPOINT_NAME)

        @app.post("/token")
        def token() -> Any:
            return authorization.create_token_response()

    def _save_token(self, token: dict[str, Any], request: Any) -> None:
        """What the client gets, which an ID token is part of."""
        claims: Mapping[str, Any] = request.user
        now = int(time.time())
        self.requests.append(str(request.payload.grant_type))
        token["id_token"] = jwt.encode(
            {"iss": self.issuer, "aud": self.client_id, "iat": now, "exp": int(now + self.lifetime)}
            | {**claims} | self.changes,
            self._key, algorithm="RS256", headers={"kid": _KEY_ID},
        )  # fmt: skip
        token["refresh_token"] = secrets.token_urlsafe(16)
        scope = str(token.get("scope", ""))
        self._refresh[token["refresh_token"]] = (_RefreshToken(self.client_id, scope), claims)

    def _device_endpoint(self) -> type[DeviceAuthorizationEndpoint]:
        lab = self

        class Endpoint(DeviceAuthorizationEndpoint):  # type: ignore[misc]
            CLIENT_AUTH_METHODS = ("none",)
            INTERVAL = 0.2

            def get_verification_uri(self) -> str:
                return f"{lab.issuer}/activate"

            def save_device_credential(self, client_id: str, scope: str, data: dict[str, Any]) -> None:
                lab._codes[data["device_code"]] = {
                    **data, "client_id": client_id, "scope": scope,
                    "expires_at": time.time() + data["expires_in"],
                }  # fmt: skip

        return Endpoint

    def _device_grant(self) -> type[DeviceCodeGrant]:
        lab = self

        class Grant(DeviceCodeGrant):  # type: ignore[misc]
            TOKEN_ENDPOINT_AUTH_METHODS = ("none",)

            def query_device_credential(self, device_code: str) -> DeviceCredentialDict | None:
                found = lab._codes.get(device_code)
                return DeviceCredentialDict(found) if found else None

            def query_user_grant(self, user_code: str) -> tuple[Mapping[str, Any], bool] | None:
                if user_code in lab.denied:
                    return {}, False
                return (lab.people[user_code], True) if user_code in lab.people else None

            def should_slow_down(self, credential: object) -> bool:
                return False

        return Grant

    def _refresh_grant(self) -> type[grants.RefreshTokenGrant]:
        lab = self

        class Grant(grants.RefreshTokenGrant):  # type: ignore[misc]
            TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
            INCLUDE_NEW_REFRESH_TOKEN = True

            def authenticate_refresh_token(self, refresh_token: str) -> _RefreshToken | None:
                held, claims = lab._refresh.pop(refresh_token, (None, {}))
                self._claims = claims
                return held

            def authenticate_user(self, refresh_token: _RefreshToken) -> Mapping[str, Any]:
                return self._claims

            def revoke_old_credential(self, refresh_token: _RefreshToken) -> None:
                return None

        return Grant
