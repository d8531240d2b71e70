"""The Python SDK as an OAuth client of a server that wants tokens: it finds out where, registers, and logs in.

usage: python_oauth.py URL PROVIDER      prints one JSON object

PROVIDER is tests/logins/identity.mjs, whose tokens last two seconds; somebody there follows links.
"""

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from mcp.client import streamable_http
from mcp.client.auth import OAuthClientProvider
from mcp.client.session import ClientSession
from mcp.shared.auth import OAuthClientMetadata
from python_client import Client

try:
    import httpx2 as httpx
    from mcp.client.auth import AuthorizationCodeResult
except ImportError:
    import httpx

    AuthorizationCodeResult = None


class Storage:
    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


class Person:
    """Follows links, and tells where they end."""

    def __init__(self, provider: str) -> None:
        self.provider, self.links, self.end = provider, [], ""

    async def follow(self, link: str) -> None:
        self.links.append(link)
        async with httpx.AsyncClient() as http:
            answer = await http.get(f"{self.provider}/test/person?link={quote(link, safe='')}")
            answer.raise_for_status()
            self.end = answer.text

    async def came_back(self) -> Any:
        said = {name: values[0] for name, values in parse_qs(urlsplit(self.end).query).items()}
        if AuthorizationCodeResult is None:
            return said["code"], said["state"]
        return AuthorizationCodeResult(code=said["code"], state=said["state"], iss=said.get("iss"))


def login(url: str, person: Person, storage: Storage) -> OAuthClientProvider:
    about = {
        "client_name": "a client",
        "redirect_uris": ["http://127.0.0.1:9/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    metadata = OAuthClientMetadata.model_validate(about)
    return OAuthClientProvider(url, metadata, storage, person.follow, person.came_back)


async def play(url: str, provider: str) -> dict[str, Any]:
    storage, person = Storage(), Person(provider)
    auth = login(url, person, storage)
    told: dict[str, Any] = {"mcp": version("mcp")}

    async def steps(session: Any) -> None:
        async def call() -> str:
            result = await session.call_tool("ping", {})
            return result.model_dump(by_alias=True, mode="json")["content"][0]["text"]

        told["first"] = await call()
        first = storage.tokens.access_token
        # It expires, by the client's own clock.
        await asyncio.sleep(2.5)
        told["after the expiry"] = await call()
        told["another token"] = storage.tokens.access_token != first
        # The server refuses it, whatever the client believes.
        auth.context.current_tokens.access_token = "spoiled"
        auth.context.token_expiry_time = None
        told["after a refusal"] = await call()

    if Client is not None:
        http = httpx.AsyncClient(auth=auth, follow_redirects=True, timeout=30)
        async with http, Client(streamable_http.streamable_http_client(url, http_client=http)) as client:
            told["version"] = client.protocol_version
            await steps(client)
    else:
        async with (
            streamable_http.streamablehttp_client(url, auth=auth) as (reader, writer, *_),
            ClientSession(reader, writer) as session,
        ):
            told["version"] = (await session.initialize()).protocolVersion
            await steps(session)
    told["links"] = person.links
    return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(play(*sys.argv[1:3]))))
