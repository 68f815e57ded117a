"""The page and what it asks for: a Starlette application for one browser on this computer.

Every request needs the token (in the address once, then in a cookie), a Host that is this server,
and, if it changes something, an Origin that is this page.
"""

import hmac
import json
import mimetypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._core.exceptions import GemmedError, ReviewError, reason
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


def make_app(session: ReviewSession, token: str, port: int) -> Any:
    """The application; the address of the page holds the token."""
    require("starlette", "the review page needs", "review")
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.responses import PlainTextResponse, RedirectResponse
    from starlette.routing import Route

    hosts, cookie = {f"127.0.0.1:{port}", f"localhost:{port}"}, f"gemmed_review_{port}"

    def fits(given: str) -> bool:
        return hmac.compare_digest(given.encode(), token.encode())

    async def guarded(request: Any, answer_of: Any) -> Any:
        """Lets through what comes from the page of this server."""
        given = request.query_params.get("token")
        if request.headers.get("host", "") not in hosts:
            answer: Any = PlainTextResponse("this server has another name", 400)
        elif not _is_from(request, hosts):
            answer = PlainTextResponse("this request comes from another page", 403)
        elif given is not None and request.url.path == "/" and fits(given):
            # The token goes from the address into a cookie that no script can read.
            answer = RedirectResponse("/", 303)
            answer.set_cookie(cookie, token, httponly=True, samesite="strict")
        elif not fits(request.cookies.get(cookie, "")):
            answer = PlainTextResponse("open the address that gemmed review printed", 403)
        else:
            answer = await answer_of(request)
        answer.headers.update(HEADERS)
        return answer

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
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guarded)])


def _is_from(request: Any, hosts: set[str]) -> bool:
    """Whether a request comes from a page of this server, or changes nothing and may be typed."""
    origin = request.headers.get("origin")
    if origin is not None and origin.removeprefix("http://") not in hosts:
        return False
    site = request.headers.get("sec-fetch-site", "same-origin")
    return request.method in ("GET", "HEAD") or (origin is not None and site == "same-origin")


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
        except LookupError as error:
            return JSONResponse({"problem": str(error.args[0])}, 404)
        except (GemmedError, OSError, ValueError) as error:
            return JSONResponse({"problem": reason(error)}, 400)

    return answer


class _Pages:
    """Answers to requests, in threads."""

    def __init__(self, session: ReviewSession) -> None:
        from starlette import responses

        self._session, self._answers = session, responses
        shared = {name: page_file(name) for name in ("look.css", "sample.js")}
        own = ("review.css", "review.js", "icon.svg")
        self._files = shared | {name: PAGE.joinpath(name).read_text("utf-8") for name in own}
        page = templates(PAGE).get_template("review.html")
        self._page = page.render(name=session.path.name, target=session.subject.target)

    def page(self, request: Any) -> Any:
        return self._answers.HTMLResponse(self._page)

    def file(self, request: Any) -> Any:
        name = request.path_params["name"]
        if name not in self._files:
            return self._answers.PlainTextResponse("no such file", 404)
        return self._answers.Response(self._files[name], media_type=mimetypes.guess_type(name)[0])

    def queue(self, request: Any, given: Any) -> Any:
        start, count = _whole(given.get("start", "0")), _whole(given.get("count", "50"))
        if start is None or count is None:
            raise ReviewError("start and count must be whole numbers")
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
            raise LookupError("the number of a row is a whole number")
        return self._session.sample(row, _reviewer(given))

    def mark(self, request: Any, given: Any) -> Any:
        if given is None:
            raise ReviewError("a mark is JSON with row, mark, reviewer and perhaps label")
        row, label = given.get("row"), given.get("label")
        if type(row) is not int or not (label is None or isinstance(label, str)):
            raise ReviewError("row must be a whole number and label a text")
        kind, reviewer = str(given.get("mark")), str(given.get("reviewer", ""))
        return {
            "id": self._session.mark(row, kind, label, reviewer),
            "state": self._session.state(),
        }

    def undo(self, request: Any, given: Any) -> Any:
        if given is None:
            raise ReviewError("undo needs JSON with reviewer")
        mark = self._session.undo(str(given.get("reviewer", "")))
        return {"row": None if mark is None else mark.row + 1, "state": self._session.state()}

    def refit(self, request: Any, given: Any) -> Any:
        if request.method == "POST" and not self._session.refit():
            raise ReviewError("a fit is running already")
        return self._session.progress()

    def bulk(self, request: Any, given: Any) -> Any:
        try:
            confidence = float((given or {}).get("confidence", "x"))
        except (TypeError, ValueError):
            raise ReviewError("bulk needs a confidence between 0.5 and 1") from None
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
            raise ReviewError("shown must be the number of suggestions that the page showed")
        n = self._session.accept(confidence, shown, str(given.get("reviewer", "")))
        return {"accepted": n, "state": self._session.state()}

    def export(self, request: Any, given: Any) -> Any:
        bad = None if given is None else given.get("bad", "drop")
        if bad not in BAD_ROWS:
            raise ReviewError(f"export needs JSON with bad, one of {', '.join(BAD_ROWS)}")
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
        file = self._recording(request)
        if file is None or not Path(file.path).is_file():
            return self._answers.PlainTextResponse("no such recording", 404)
        kind = mimetypes.guess_type(file.path)[0] or ""
        return self._answers.FileResponse(
            file.path, media_type=kind if kind.startswith("audio/") else "audio/wav"
        )

    def spectrogram(self, request: Any) -> Any:
        file = self._recording(request)
        if file is None:
            return self._answers.PlainTextResponse("no such recording", 404)
        try:
            picture = spectrogram_png(read_audio(file.path, start=file.start, end=file.end))
        except (GemmedError, OSError) as error:
            return self._answers.PlainTextResponse(str(error), 404)
        return self._answers.Response(picture, media_type="image/png")

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
