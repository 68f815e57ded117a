"""The page and what it asks for: a Starlette application for one browser on this computer.

Every request needs the token (in the address once, then in a cookie), a Host that is this server,
and, if it changes something, an Origin that is this page.
"""

from __future__ import annotations

import hmac
import mimetypes
from pathlib import Path
from typing import Any

from .._core.exceptions import GemmedError
from .._core.optional import require
from ..acoustics.audio import read_audio
from ..report.pages import page_file, templates
from ..report.sounds import spectrogram_png
from .corrected import BAD_ROWS, export
from .session import LONGEST_NAME, ReviewSession
from .suggestions import BulkOffer

PAGE = Path(__file__).with_name("page")
MOST_LISTED = 500
LARGEST_BODY = 10_000
LONGEST_SEARCH = 200
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "style-src 'self'; script-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets through what comes from the page of this server.

    Parameters
    ----------
    app : the application behind it
    token : what the address of the page holds
    port : of this server
    """

    def __init__(self, app: Any, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._cookie = f"gemmed_review_{port}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.datastructures import QueryParams
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse, RedirectResponse

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer: Any = None
        given = QueryParams(scope["query_string"]).get("token")
        if request.headers.get("host", "") not in self._hosts:
            answer = PlainTextResponse("this server has another name", 400)
        elif not self._from_here(request):
            answer = PlainTextResponse("this request comes from another page", 403)
        elif given is not None and scope["path"] == "/" and self._fits(given):
            # The token goes from the address into a cookie that no script can read.
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        elif not self._fits(request.cookies.get(self._cookie, "")):
            answer = PlainTextResponse("open the address that gemmed review printed", 403)
        if answer is None:
            await self._app(scope, receive, _with_headers(send))
        else:
            await answer(scope, receive, _with_headers(send))

    def _fits(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token.encode())

    def _from_here(self, request: Any) -> bool:
        origin = request.headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return False
        return not (
            request.method not in ("GET", "HEAD")
            and (
                origin is None
                or request.headers.get("sec-fetch-site", "same-origin") != "same-origin"
            )
        )


def _with_headers(send: Any) -> Any:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message["headers"], *own]}
        await send(message)

    return sending


def make_app(session: ReviewSession, token: str, port: int) -> Any:
    """The application.

    Parameters
    ----------
    token : secret of this run
    port : that it is served on
    """
    require("starlette", "the review page needs", "review")
    from starlette.applications import Starlette
    from starlette.routing import Route

    pages = _Pages(session)
    routes = [
        Route("/", pages.page),
        Route("/page/{name}", pages.file),
        Route("/api/state", pages.state),
        Route("/api/queue", pages.queue),
        Route("/api/next", pages.next),
        Route("/api/sample/{row}", pages.sample),
        Route("/api/mark", pages.mark, methods=["POST"]),
        Route("/api/undo", pages.undo, methods=["POST"]),
        Route("/api/refit", pages.refit, methods=["GET", "POST"]),
        Route("/api/bulk", pages.bulk, methods=["GET", "POST"]),
        Route("/api/export", pages.export, methods=["POST"]),
        Route("/audio/{row}", pages.audio),
        Route("/spectrogram/{row}", pages.spectrogram),
    ]
    return Guard(Starlette(routes=routes), token, port)


class _Pages:
    """Answers to requests; work that takes long is done in threads."""

    def __init__(self, session: ReviewSession) -> None:
        self._session = session
        shared = {name: page_file(name) for name in ("look.css", "sample.js")}
        own = ("review.css", "review.js", "icon.svg")
        self._files = shared | {name: PAGE.joinpath(name).read_text("utf-8") for name in own}
        self._page = (
            templates(PAGE)
            .get_template("review.html")
            .render(name=session.path.name, target=session.subject.target)
        )

    async def page(self, request: Any) -> Any:
        from starlette.responses import HTMLResponse

        return HTMLResponse(self._page)

    async def file(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse, Response

        name = request.path_params["name"]
        if name not in self._files:
            return PlainTextResponse("no such file", 404)
        return Response(self._files[name], media_type=mimetypes.guess_type(name)[0])

    async def state(self, request: Any) -> Any:
        return await _answer(self._session.state)

    async def queue(self, request: Any) -> Any:
        start = _whole(request.query_params.get("start", "0"))
        count = _whole(request.query_params.get("count", "50"))
        ranking = request.query_params.get("ranking", "joint")
        if start is None or count is None:
            return _problem("start and count must be whole numbers", 400)
        search = request.query_params.get("search", "")[:LONGEST_SEARCH]
        reviewer = _reviewer(request)
        return await _answer(
            lambda: self._session.queue(
                ranking, start, min(count, MOST_LISTED), search=search, reviewer=reviewer
            )
        )

    async def next(self, request: Any) -> Any:
        ranking = request.query_params.get("ranking", "joint")
        after = _whole(request.query_params.get("after", ""))
        reviewer = _reviewer(request)
        return await _answer(lambda: {"row": self._session.next_row(ranking, after, reviewer)})

    async def sample(self, request: Any) -> Any:
        row = _whole(request.path_params["row"])
        if row is None:
            return _problem("the number of a row is a whole number", 404)
        reviewer = _reviewer(request)
        return await _answer(lambda: self._session.sample(row, reviewer))

    async def mark(self, request: Any) -> Any:
        given = await _given(request)
        if given is None:
            return _problem("a mark is JSON with row, mark, reviewer and perhaps label", 400)
        row, label = given.get("row"), given.get("label")
        if type(row) is not int or not (label is None or isinstance(label, str)):
            return _problem("row must be a whole number and label a text", 400)

        def store() -> dict[str, Any]:
            kind, reviewer = str(given.get("mark")), str(given.get("reviewer", ""))
            number = self._session.mark(row, kind, label, reviewer)
            return {"id": number, "state": self._session.state()}

        return await _answer(store)

    async def undo(self, request: Any) -> Any:
        given = await _given(request)
        if given is None:
            return _problem("undo needs JSON with reviewer", 400)

        def take_back() -> dict[str, Any]:
            mark = self._session.undo(str(given.get("reviewer", "")))
            row = None if mark is None else mark.row + 1
            return {"row": row, "state": self._session.state()}

        return await _answer(take_back)

    async def refit(self, request: Any) -> Any:
        if request.method == "POST" and not self._session.refit():
            return _problem("a fit is running already", 409)
        return await _answer(self._session.progress)

    async def bulk(self, request: Any) -> Any:
        given = request.query_params if request.method == "GET" else await _given(request)
        try:
            confidence = float((given or {}).get("confidence", "x"))
        except (TypeError, ValueError):
            return _problem("bulk needs a confidence between 0.5 and 1", 400)
        if request.method == "GET":
            return await _answer(lambda: _offered(self._session.offer(confidence)))
        assert given is not None
        shown = given.get("shown")
        if not isinstance(shown, int):
            return _problem("shown must be the number of suggestions that the page showed", 400)

        def accept() -> dict[str, Any]:
            n = self._session.accept(confidence, shown, str(given.get("reviewer", "")))
            return {"accepted": n, "state": self._session.state()}

        return await _answer(accept)

    async def export(self, request: Any) -> Any:
        given = await _given(request)
        if given is None or given.get("bad", "drop") not in BAD_ROWS:
            return _problem(f"export needs JSON with bad, one of {', '.join(BAD_ROWS)}", 400)
        session = self._session
        path = corrected_name(session.path)

        def write() -> dict[str, Any]:
            done = export(
                session.subject.table,
                session.subject.target,
                session.store,
                path,
                bad=str(given.get("bad", "drop")),
                identifiers=session.identifiers,
            )
            return done._asdict()

        return await _answer(write)

    async def audio(self, request: Any) -> Any:
        from starlette.responses import FileResponse, PlainTextResponse

        path = self._recording(request)
        if path is None or not Path(path).is_file():
            return PlainTextResponse("no such recording", 404)
        kind = mimetypes.guess_type(path)[0] or ""
        return FileResponse(path, media_type=kind if kind.startswith("audio/") else "audio/wav")

    async def spectrogram(self, request: Any) -> Any:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import PlainTextResponse, Response

        path = self._recording(request)
        if path is None:
            return PlainTextResponse("no such recording", 404)
        start, end = self._session.subject.bounds(
            self._session.position_of(int(request.path_params["row"]))
        )

        def draw() -> bytes:
            return spectrogram_png(read_audio(path, start=start, end=end))

        try:
            return Response(await run_in_threadpool(draw), media_type="image/png")
        except (GemmedError, OSError) as error:
            return PlainTextResponse(str(error), 404)

    def _recording(self, request: Any) -> str | None:
        """Only files of the manifest, by the number of their row."""
        try:
            position = self._session.position_of(_whole(request.path_params["row"]) or 0)
        except LookupError:
            return None
        return self._session.subject.recording(position)


def _offered(offer: BulkOffer) -> dict[str, Any]:
    return {
        "suggestions": len(offer.suggestions),
        "expected_errors": round(offer.expected_errors, 2),
        "most_errors": None if offer.most_errors is None else round(offer.most_errors, 1),
        "checks": offer.n_checks,
    }


def _reviewer(request: Any) -> str:
    return " ".join(request.query_params.get("reviewer", "").split())[:LONGEST_NAME]


def corrected_name(path: Path) -> Path:
    """Where the page writes the corrected table: beside the table."""
    suffixes = "".join(path.suffixes[-2:]) if path.suffix in (".gz", ".bz2", ".xz") else path.suffix
    stem = path.name.removesuffix(suffixes)
    return path.with_name(f"{stem}.corrected{suffixes}")


async def _answer(work: Any) -> Any:
    """What some work gives, as JSON; problems in one sentence, never a page of an error."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse

    try:
        return JSONResponse(await run_in_threadpool(work))
    except LookupError as error:
        return _problem(str(error.args[0]) if error.args else "not found", 404)
    except (GemmedError, OSError, ValueError) as error:
        full = "full" in str(error)
        return _problem(" ".join(str(error).split()), 507 if full else 400)


def _problem(text: str, status: int) -> Any:
    from starlette.responses import JSONResponse

    return JSONResponse({"problem": text}, status)


async def _given(request: Any) -> dict[str, Any] | None:
    """The JSON object of a request, or None."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            return None
    import json

    try:
        found = json.loads(body)
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        return None
    return found if isinstance(found, dict) else None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else None
