"""The page and what it asks for: a Starlette application for one browser on this computer.

Every request needs the token (in the address once, then in a cookie), a Host that is this server,
and, if it changes something, an Origin that is this page.
"""

from __future__ import annotations

import hmac
import json
import mimetypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._core.exceptions import GemmedError
from .._core.optional import require
from ..acoustics import SoundFile, read_audio
from ..report.pages import page_file, templates
from ..report.sounds import spectrogram_png
from .corrected import BAD_ROWS, export
from .session import MAX_NAME_LENGTH, ReviewSession

PAGE = Path(__file__).with_name("page")
MAX_LISTED_ROWS = 500
MAX_BODY_BYTES = 10_000
MAX_SEARCH_LENGTH = 200
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
        site = request.headers.get("sec-fetch-site", "same-origin")
        return request.method in ("GET", "HEAD") or (origin is not None and site == "same-origin")


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
        Route("/audio/{row}", pages.audio),
        Route("/spectrogram/{row}", pages.spectrogram),
    ]
    for path, work, methods in (
        ("state", lambda request, given: session.state(), ["GET"]),
        ("queue", pages.queue, ["GET"]),
        ("next", pages.next, ["GET"]),
        ("sample/{row}", pages.sample, ["GET"]),
        ("mark", pages.mark, ["POST"]),
        ("undo", pages.undo, ["POST"]),
        ("refit", pages.refit, ["GET", "POST"]),
        ("bulk", pages.bulk, ["GET", "POST"]),
        ("export", pages.export, ["POST"]),
    ):
        routes.append(Route(f"/api/{path}", _answering(work), methods=methods))
    return Guard(Starlette(routes=routes), token, port)


class _Problem(Exception):
    """What is wrong with a request, in a sentence, and the status of the answer."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


def _answering(work: Callable[[Any, Any], Any]) -> Any:
    """An endpoint that answers with what some work gives, as JSON.

    ``work`` is called in a thread with the request and what it gives: the JSON object of a POST
    (None if there is none), else the query. Problems are one sentence, never a page of an error.
    """
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse

    async def answer(request: Any) -> Any:
        given = await _given(request) if request.method == "POST" else request.query_params
        try:
            return JSONResponse(await run_in_threadpool(work, request, given))
        except _Problem as error:
            text, status = str(error), error.status
        except LookupError as error:
            text, status = str(error.args[0]) if error.args else "not found", 404
        except (GemmedError, OSError, ValueError) as error:
            text = " ".join(str(error).split())
            status = 507 if "full" in text else 400
        return JSONResponse({"problem": text}, status)

    return answer


class _Pages:
    """Answers to requests, in threads."""

    def __init__(self, session: ReviewSession) -> None:
        self._session = session
        shared = {name: page_file(name) for name in ("look.css", "sample.js")}
        own = ("review.css", "review.js", "icon.svg")
        self._files = shared | {name: PAGE.joinpath(name).read_text("utf-8") for name in own}
        page = templates(PAGE).get_template("review.html")
        self._page = page.render(name=session.path.name, target=session.subject.target)

    def page(self, request: Any) -> Any:
        from starlette.responses import HTMLResponse

        return HTMLResponse(self._page)

    def file(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse, Response

        name = request.path_params["name"]
        if name not in self._files:
            return PlainTextResponse("no such file", 404)
        return Response(self._files[name], media_type=mimetypes.guess_type(name)[0])

    def queue(self, request: Any, given: Any) -> Any:
        start, count = _whole(given.get("start", "0")), _whole(given.get("count", "50"))
        if start is None or count is None:
            raise _Problem("start and count must be whole numbers")
        return self._session.queue(
            given.get("ranking", "joint"),
            start,
            min(count, MAX_LISTED_ROWS),
            search=given.get("search", "")[:MAX_SEARCH_LENGTH],
            reviewer=_reviewer(given),
        )

    def next(self, request: Any, given: Any) -> Any:
        ranking, after = given.get("ranking", "joint"), _whole(given.get("after", ""))
        return {"row": self._session.next_row(ranking, after, _reviewer(given))}

    def sample(self, request: Any, given: Any) -> Any:
        row = _whole(request.path_params["row"])
        if row is None:
            raise _Problem("the number of a row is a whole number", 404)
        return self._session.sample(row, _reviewer(given))

    def mark(self, request: Any, given: Any) -> Any:
        if given is None:
            raise _Problem("a mark is JSON with row, mark, reviewer and perhaps label")
        row, label = given.get("row"), given.get("label")
        if type(row) is not int or not (label is None or isinstance(label, str)):
            raise _Problem("row must be a whole number and label a text")
        kind, reviewer = str(given.get("mark")), str(given.get("reviewer", ""))
        return {
            "id": self._session.mark(row, kind, label, reviewer),
            "state": self._session.state(),
        }

    def undo(self, request: Any, given: Any) -> Any:
        if given is None:
            raise _Problem("undo needs JSON with reviewer")
        mark = self._session.undo(str(given.get("reviewer", "")))
        return {"row": None if mark is None else mark.row + 1, "state": self._session.state()}

    def refit(self, request: Any, given: Any) -> Any:
        if request.method == "POST" and not self._session.refit():
            raise _Problem("a fit is running already", 409)
        return self._session.progress()

    def bulk(self, request: Any, given: Any) -> Any:
        try:
            confidence = float((given or {}).get("confidence", "x"))
        except (TypeError, ValueError):
            raise _Problem("bulk needs a confidence between 0.5 and 1") from None
        if request.method == "GET":
            offer = self._session.offer(confidence)
            most = offer.most_errors
            return {
                "suggestions": len(offer.suggestions),
                "expected_errors": round(offer.expected_errors, 2),
                "most_errors": None if most is None else round(most, 1),
                "checks": offer.n_checks,
            }
        shown = given.get("shown")
        if not isinstance(shown, int):
            raise _Problem("shown must be the number of suggestions that the page showed")
        n = self._session.accept(confidence, shown, str(given.get("reviewer", "")))
        return {"accepted": n, "state": self._session.state()}

    def export(self, request: Any, given: Any) -> Any:
        bad = None if given is None else given.get("bad", "drop")
        if bad not in BAD_ROWS:
            raise _Problem(f"export needs JSON with bad, one of {', '.join(BAD_ROWS)}")
        session = self._session
        return export(
            session.subject.table,
            session.subject.target,
            session.store,
            corrected_name(session.path),
            bad=bad,
            identifiers=session.identifiers,
        )._asdict()

    def audio(self, request: Any) -> Any:
        from starlette.responses import FileResponse, PlainTextResponse

        file = self._recording(request)
        if file is None or not Path(file.path).is_file():
            return PlainTextResponse("no such recording", 404)
        kind = mimetypes.guess_type(file.path)[0] or ""
        return FileResponse(
            file.path, media_type=kind if kind.startswith("audio/") else "audio/wav"
        )

    def spectrogram(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse, Response

        file = self._recording(request)
        if file is None:
            return PlainTextResponse("no such recording", 404)
        try:
            picture = spectrogram_png(read_audio(file.path, start=file.start, end=file.end))
        except (GemmedError, OSError) as error:
            return PlainTextResponse(str(error), 404)
        return Response(picture, media_type="image/png")

    def _recording(self, request: Any) -> SoundFile | None:
        """A recording of the manifest, by the number of its row."""
        try:
            position = self._session.position_of(_whole(request.path_params["row"]) or 0)
        except LookupError:
            return None
        return self._session.subject.file(position)


def _reviewer(given: Any) -> str:
    return " ".join(given.get("reviewer", "").split())[:MAX_NAME_LENGTH]


def corrected_name(path: Path) -> Path:
    """Where the page writes the corrected table: beside the table."""
    suffixes = "".join(path.suffixes[-2:]) if path.suffix in (".gz", ".bz2", ".xz") else path.suffix
    stem = path.name.removesuffix(suffixes)
    return path.with_name(f"{stem}.corrected{suffixes}")


async def _given(request: Any) -> dict[str, Any] | None:
    """The JSON object of a request, or None."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        return None
    return found if isinstance(found, dict) else None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else None
