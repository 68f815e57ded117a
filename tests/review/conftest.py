"""Reviews that end with the test."""

import pytest

from reviewed import Running

pytest.importorskip("pandas")
pytest.importorskip("starlette", reason="the review page needs the extra [review]")
pytest.importorskip("uvicorn", reason="the review page needs the extra [review]")


@pytest.fixture
def start():
    """Function that starts a review; all are ended with the test."""
    running = []

    def begin(*arguments):
        running.append(Running(*arguments))
        return running[-1]

    yield begin
    for one in running:
        one.close()
