"""SDK clients and LiveKit as OAuth clients of `outlive serve --oauth-issuer`, with a real identity provider."""

import base64
import hashlib
import json
import signal
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from peers import HERE, OUTLIVE, python, run, tools

LOGINS = HERE.parent / "logins"
GREETING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "client", "version": "1"},
    },
}


def fetch(url: str, form: dict[str, str] | None = None, body: Any = None) -> bytes:
    data = urlencode(form).encode() if form else json.dumps(body).encode() if body else None
    headers = {"content-type": "application/json"} if body else {}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
        return answer.read()


class Provider:
    """tests/logins/identity.mjs: oidc-provider, with somebody who logs in."""

    def __init__(self, seconds: int) -> None:
        subprocess.run([LOGINS / "setup", "provider"], check=True)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        command = ["node", str(LOGINS / "identity.mjs"), str(seconds)]
        self.process = subprocess.Popen(command, text=True, **pipes)
        self.origin = self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def grants(self) -> list[str]:
        return json.loads(fetch(f"{self.origin}/test/books"))

    def restart(self) -> None:
        fetch(f"{self.origin}/test/restart", form={"now": "1"})

    def log_in(self, resource: str) -> dict[str, Any]:
        """What a client gets that asks for tokens for this resource."""
        end = "http://127.0.0.1:9/callback"
        about = {
            "redirect_uris": [end],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
        }
        client = json.loads(fetch(f"{self.origin}/reg", body=about))["client_id"]
        verifier = "v" * 64
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": end,
            "scope": "mcp",
            "resource": resource,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        link = quote(f"{self.origin}/auth?{urlencode(asked)}", safe="")
        came = fetch(f"{self.origin}/test/person?link={link}").decode()
        form = {
            "grant_type": "authorization_code",
            "client_id": client,
            "code": parse_qs(urlsplit(came).query)["code"][0],
            "redirect_uri": end,
            "code_verifier": verifier,
            "resource": resource,
        }
        return json.loads(fetch(f"{self.origin}/token", form=form))


class OAuth(unittest.TestCase):
    """Tokens last two seconds. The server gives clocks a minute, so what is renewed is renewed by the client."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.provider = Provider(2)
        cls.addClassCleanup(cls.provider.end)
        cls.url = cls.serve(cls.provider)

    @classmethod
    def serve(cls, provider: Provider) -> str:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        url = f"http://127.0.0.1:{port}/mcp"
        command = [OUTLIVE, "serve", "--listen", f"127.0.0.1:{port}", "--log-format", "json"]
        command += ["--oauth-issuer", provider.origin, "--audience", url, "--oauth-scope", "mcp"]
        process = subprocess.Popen([*command, "--", *tools("1.30.0")], stderr=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.end, process)
        events = map(json.loads, iter(process.stderr.readline, ""))
        next(event for event in events if event["event"] == "listening")
        return url

    @staticmethod
    def end(process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        if process.returncode != 0:
            raise AssertionError(f"outlive ends with {process.returncode}")

    def setUp(self) -> None:
        self.before = len(self.provider.grants())

    def grants(self) -> list[str]:
        return self.provider.grants()[self.before :]

    def status(self, token: str) -> tuple[int, str]:
        """What a client with this token is answered, and with which challenge."""
        headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        request = urllib.request.Request(self.url, json.dumps(GREETING).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            return error.code, error.headers["www-authenticate"]

    def wait_for_key_of(self, token: str) -> None:
        """The keys of a provider are not read more often than every few seconds; 503 until then."""
        begun = time.monotonic()
        while (code := self.status(token)[0]) == 503:
            self.assertLess(time.monotonic() - begun, 60, "the key is never found")
            time.sleep(0.2)
        self.assertEqual(code, 200)

    def assert_asked_rightly(self, link: str) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}
        self.assertEqual(asked["resource"], self.url, "it has read our metadata")
        self.assertIn("mcp", asked["scope"].split(), "and what we want")

    def test_the_python_sdk_logs_in_and_goes_on(self) -> None:
        for mcp in ("1.20.0", "1.27.0", "1.30.0", "2.3.0"):
            with self.subTest(mcp=mcp):
                self.setUp()
                host = [python(f"mcp-{mcp}"), str(HERE / "hosts/python_oauth.py")]
                told = run([*host, self.url, self.provider.origin])
                self.assertEqual(told["mcp"], mcp)
                for step in ("first", "after the expiry", "after a refusal"):
                    self.assertIn("pong", told[step], step)
                self.assertTrue(told["another token"])
                self.assert_asked_rightly(told["links"][0])
                self.assertIn("refresh_token", self.grants())

    def test_the_typescript_sdk_logs_in_and_goes_on(self) -> None:
        for generation in ("sdk", "client"):
            with self.subTest(generation=generation):
                self.setUp()
                host = ["node", str(HERE / "hosts/typescript_oauth.mjs"), generation]
                told = run([*host, self.url, self.provider.origin])
                self.assertTrue(told["asked"] and told["another token"], told)
                for step in ("first", "after a refusal"):
                    self.assertIn("pong", told[step], step)
                self.assertEqual(len(told["links"]), 1, "one login")
                self.assert_asked_rightly(told["links"][0])
                self.assertEqual(self.grants(), ["authorization_code", "refresh_token"])

    def test_livekit_goes_on_with_the_next_token(self) -> None:
        for version in ("1.6.4", "1.8.9"):
            with self.subTest(version=version):
                first = self.provider.log_in(self.url)
                # Signed with a key that the provider did not have before.
                self.provider.restart()
                following = self.provider.log_in(self.url)
                self.wait_for_key_of(following["access_token"])
                tokens = [first["access_token"], following["access_token"]]
                told = run([python(f"livekit-{version}"), str(HERE / "hosts/livekit_oauth.py"), self.url, *tokens])
                self.assertEqual(told["livekit-agents"], version)
                self.assertIn("pong", told["first"])
                self.assertIn("pong", told["with the next token"])
                self.assertNotEqual(told["without one"], "", "it is told")

    def test_a_token_for_another_server_is_refused(self) -> None:
        self.assertEqual(self.status(self.provider.log_in(self.url)["access_token"])[0], 200)
        code, challenge = self.status(self.provider.log_in("http://127.0.0.1:1/mcp")["access_token"])
        self.assertEqual(code, 401)
        self.assertIn('error="invalid_token"', challenge)
        self.assertIn("resource_metadata=", challenge)
