"""Access control: only this machine's browser with the link may send requests, and no page of another site.

The server is bound to loopback. Another page in the same browser could still send requests to it, and a name server
could give another name this address; so each request must name loopback as its host, hold the cookie that the link
gave, and, where it writes, come from a page of this server. Anything else gets 403 and one line.
"""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

POLICY = "; ".join(
    (
        "default-src 'none'",
        "img-src 'self' data:",
        "style-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Content policy, equal to the report's: no inline script or style, nothing fetched from elsewhere."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
_READING = frozenset(("GET", "HEAD"))

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """Guard that passes requests of the browser with the link to an application, and sets headers on every answer.

    Args:
        application: Application that answers requests.
        port: Port on which the server listens.
        token: Token in the printed link.
    """

    def __init__(self, application: Application, port: int, token: str) -> None:
        self.application, self.token = application, token
        self.hosts = frozenset((f"127.0.0.1:{port}", f"localhost:{port}"))
        self.cookie = f"memorisk-{port}"  # cookies know no ports: two servers need two names
        self.session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)  # the start and the end of the server
            return
        request = Request(scope, receive)
        answer = self._refused(request) or self._let_in(request)

        async def send_with_headers(message: Message) -> None:
            """Add the headers to the message that is sent."""
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        await (answer or self.application)(scope, receive, send_with_headers)

    def _refused(self, request: Request) -> Response | None:
        """Refuse requests from outside the pages of this server; None for others."""
        host = request.headers.get("host", "")
        if host not in self.hosts:
            return _forbidden("this server answers to loopback alone")
        if request.method not in _READING and request.headers.get("origin") != f"http://{host}":
            return _forbidden("only a page of this server may write")
        return None

    def _let_in(self, request: Request) -> Response | None:
        """Give the cookie for the link's token, or refuse a browser without both; None for one with the cookie."""
        token = request.query_params.get("token")
        if token is not None and request.method in _READING and request.scope["path"] == "/":
            if not secrets.compare_digest(token.encode(), self.token.encode()):
                return _forbidden("this link is not the one that memorisk view printed")
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(self.cookie, self.session, httponly=True, samesite="strict", path="/")
            return answer
        held = request.cookies.get(self.cookie, "")
        if not secrets.compare_digest(held.encode(), self.session.encode()):
            return _forbidden("open the link that memorisk view printed")
        return None


def _forbidden(why: str) -> PlainTextResponse:
    return PlainTextResponse(f"{why}\n", status_code=403)
