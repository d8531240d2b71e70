"""Canaille, an identity provider, with one person and one client in its database.

usage: canaille_provider.py FOLDER PORT RESOURCE REDIRECT      prints a line when it listens

It signs with another key each time it is started. GET /test/withdraw withdraws every token.
"""

import datetime
import logging
import sys

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend
from werkzeug.serving import make_server

CLIENT, SECRET = "outlive-desk", "a secret of the desk"
LIFE = 4  # seconds that an access token lasts


def main(folder: str, port: int, resource: str, redirect: str) -> None:
    logging.disable(logging.WARNING)
    app = create_app(
        config={
            "SECRET_KEY": "a secret of this test",
            "SERVER_NAME": f"127.0.0.1:{port}",
            "PREFERRED_URL_SCHEME": "http",
            "CANAILLE": {"DATABASE": "sql", "JAVASCRIPT": False},
            "CANAILLE_SQL": {"DATABASE_URI": f"sqlite:///{folder}/canaille.sqlite"},
            "CANAILLE_OIDC": {"TRUSTED_DOMAINS": []},
            "OAUTH2_TOKEN_EXPIRES_IN": {"authorization_code": LIFE, "refresh_token": LIFE},
        },
        init_backend=True,
    )
    with app.app_context(), Backend.instance.session():
        if not Backend.instance.get(models.User, user_name="somebody"):
            fill(resource, redirect)

    @app.route("/test/withdraw")
    def withdraw() -> str:
        tokens = Backend.instance.query(models.Token)
        for token in tokens:
            token.revokation_date = datetime.datetime.now(datetime.timezone.utc)
            Backend.instance.save(token)
        return str(len(tokens))

    server = make_server("127.0.0.1", port, app, threaded=True)
    print("listening", flush=True)
    server.serve_forever()


def fill(resource: str, redirect: str) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    person = models.User(
        user_name="somebody", family_name="Body", formatted_name="Some Body", emails=["somebody@example.com"]
    )
    Backend.instance.save(person)
    Backend.instance.set_user_password(person, "a password")
    # What tokens are for is a client there, too.
    target = models.Client(client_id=resource, client_name="The server", client_id_issued_at=now)
    Backend.instance.save(target)
    desk = models.Client(
        client_id=CLIENT,
        client_secret=SECRET,
        client_name="The desk",
        client_id_issued_at=now,
        redirect_uris=[redirect],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=["openid", "profile"],
        token_endpoint_auth_method="client_secret_basic",
    )
    Backend.instance.save(desk)
    desk.audience = [target]
    Backend.instance.save(desk)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5])
