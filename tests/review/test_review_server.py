"""The server over HTTP: who may ask, and what for."""

import http.client
import json
from urllib.parse import parse_qs, urlsplit

import pytest

from reviewed import Running, write_clips, write_patients


class Client:
    """Requests as a browser (or somebody else) would send them."""

    def __init__(self, address):
        parts = urlsplit(address)
        self.host, self.port = parts.hostname, parts.port
        self.token = parse_qs(parts.query)["token"][0]
        self.cookie = f"gemmed_review_{self.port}={self.token}"
        self.origin = f"http://{self.host}:{self.port}"

    def ask(self, path, body=None, **headers):
        """Status, headers and content of an answer; None drops a header."""
        own = {"Cookie": self.cookie, "Host": f"{self.host}:{self.port}"}
        if body is not None:
            own["Origin"] = self.origin
        own.update({name.replace("_", "-"): value for name, value in headers.items()})
        own = {name: value for name, value in own.items() if value is not None}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, data, own)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), content

    def json(self, path, body=None, **headers):
        status, _, content = self.ask(path, body, **headers)
        return status, json.loads(content)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = write_patients(tmp_path_factory.mktemp("server") / "t.csv")
    running = Running(path, "--target", "diagnosis", "--id", "patient", "--encoding", "latin-1")
    yield Client(running.address)
    running.close()


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    path = write_clips(tmp_path_factory.mktemp("clips"))
    (path.parent / "secret.wav").write_bytes(b"not in the manifest")
    running = Running(path, "--target", "word", "--id", "speaker")
    yield Client(running.address)
    running.close()


def test_the_address_gives_a_cookie_that_scripts_cannot_read(table):
    status, headers, _ = table.ask(f"/?token={table.token}", Cookie=None)
    assert status == 303 and headers["location"] == "/"
    cookie = headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    status, headers, page = table.ask("/")
    assert status == 200 and b"diagnosis" in page
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/api/state", "/page/look.css", "/api/sample/1"])
@pytest.mark.parametrize("cookie", [None, "gemmed_review_{port}=guess", "other={token}"])
def test_without_the_token_nothing_is_shown(table, path, cookie):
    cookie = cookie and cookie.format(port=table.port, token=table.token)
    status, _, content = table.ask(path, Cookie=cookie)
    assert status == 403 and b"patient" not in content


def test_a_wrong_token_in_the_address(table):
    assert table.ask("/?token=guess", Cookie=None)[0] == 403


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1", "localhost:1", "127.0.0.1.evil.org"])
def test_a_foreign_host_is_refused(table, host):
    """A name that points to this computer is how a foreign page gets around its own origin."""
    assert table.ask("/", Host=host)[0] == 400
    assert table.ask("/api/state", Host=f"localhost:{table.port}")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.org", "null", "https://127.0.0.1", None])
def test_a_foreign_origin_changes_nothing(table, origin):
    mark = {"row": 1, "mark": "right", "reviewer": "eve"}
    status, _, _ = table.ask("/api/mark", mark, Origin=origin)
    assert status == 403
    status, _, _ = table.ask("/api/mark", mark, Sec_Fetch_Site="cross-site")
    assert status == 403
    assert table.json("/api/sample/1")[1]["marks"] == []


def test_a_mark_and_its_undo(table):
    status, answer = table.json("/api/mark", {"row": 7, "mark": "bad", "reviewer": "ann"})
    assert status == 200 and answer["state"]["kinds"]["bad"] == 1
    (mark,) = table.json("/api/sample/7")[1]["marks"]
    assert mark["kind"] == "bad" and mark["reviewer"] == "ann"
    assert table.json("/api/undo", {"reviewer": "ann"})[1]["row"] == 7
    assert table.json("/api/undo", {"reviewer": "ann"})[1]["row"] is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "a mark is JSON"),
        (b"[1]", "a mark is JSON"),
        (b"x" * 20_000, "a mark is JSON"),
        ({"row": "1", "mark": "right", "reviewer": "a"}, "row must be a whole number"),
        ({"row": True, "mark": "right", "reviewer": "a"}, "row must be a whole number"),
        ({"row": 1, "mark": "right", "label": 3, "reviewer": "a"}, "label a text"),
        ({"row": 1, "mark": "nice", "reviewer": "a"}, "mark='nice' is unknown"),
        ({"row": 1, "mark": "wrong", "label": "dead", "reviewer": "a"}, "is not a class"),
        ({"row": 1, "mark": "right", "reviewer": ""}, "reviewer='' must be a name"),
    ],
)
def test_bad_marks_are_refused_in_one_sentence(table, body, words):
    status, answer = table.json("/api/mark", body)
    assert status == 400 and words in answer["problem"] and "\n" not in answer["problem"]


def test_what_does_not_exist(table):
    assert table.json("/api/mark", {"row": 999, "mark": "right", "reviewer": "a"})[0] == 404
    assert table.ask("/api/sample/999")[0] == 404
    assert table.ask("/page/../server.py")[0] == 404
    assert table.ask("/page/%2e%2e%2fserver.py")[0] == 404
    assert table.ask("/nothing")[0] == 404
    assert table.ask("/audio/1")[0] == 404
    assert table.ask("/spectrogram/1")[0] == 404
    assert table.json("/api/queue?ranking=best")[0] == 400
    assert table.json("/api/queue?start=x")[0] == 400
    assert table.json("/api/export", {"bad": "burn"})[0] == 400


def test_recordings_in_parts(clips):
    status, headers, whole = clips.ask("/audio/1")
    assert status == 200 and headers["content-type"].startswith("audio/")
    assert whole[:4] == b"RIFF"
    status, headers, part = clips.ask("/audio/1", Range="bytes=100-199")
    assert status == 206 and part == whole[100:200]
    assert headers["content-range"] == f"bytes 100-199/{len(whole)}"
    assert clips.ask("/audio/1", Range="bytes=99999999-")[0] == 416


def test_only_recordings_of_the_manifest(clips):
    for path in ("/audio/999", "/audio/0", "/audio/secret.wav", "/audio/..%2fsecret.wav"):
        assert clips.ask(path)[0] == 404
    assert clips.ask("/audio/../../etc/passwd")[0] == 404


def test_spectrogram_and_place_of_the_fault(clips):
    status, headers, picture = clips.ask("/spectrogram/5")
    assert status == 200 and headers["content-type"] == "image/png"
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    sound = clips.json("/api/sample/5")[1]["sound"]
    assert sound["audio"] == "/audio/5" and sound["duration"] == pytest.approx(0.3)
    # The noise lies between 0.125 and 0.1875 seconds.
    assert any(p["start"] < 0.17 and p["end"] > 0.14 for p in sound["places"])
    assert len(sound["wave"]) == 300


def test_numbers_without_end_and_deep_nesting_are_refused(table):
    deep = b'{"row":' + b"[" * 4900 + b"]" * 4900 + b"}"
    assert table.json("/api/mark", deep)[0] == 400
    assert table.json("/api/mark", b'{"row": ' + b"9" * 5000 + b"}")[0] == 400
    for path in ("/api/sample/", "/audio/", "/spectrogram/"):
        assert table.ask(path + "9" * 5000)[0] == 404
