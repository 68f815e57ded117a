"""``gemmed review`` killed and stopped while several reviewers post marks.

A mark is confirmed when its answer has arrived. Every confirmed mark has to be in the file once, as
it was given. Of the others, only the one that each reviewer was waiting for may be there.
"""

import http.client
import http.cookiejar
import json
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing

import numpy as np

from .limited import environment, gemmed, limits

REVIEWERS = 4
ROWS = 120


def reviews(folder, until, seed):
    """Tried, wrong (a list), refused (ended by the blow), confirmed marks."""
    rng = random.Random(seed)
    table = write_table(folder / "t.csv")
    tried, wrong, confirmed = 0, [], 0
    while tried < 3 or not until(tried):
        marks = folder / f"{tried // 3}.sqlite"  # three servers, one after another, on each file
        tried += 1
        blow = rng.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM, "full"])
        before = stored(marks) if marks.exists() else {}
        size = None
        if blow == "full":
            size = int(rng.uniform(2e4, 2e5) + (marks.stat().st_size if marks.exists() else 0))
        told = review(table, marks, blow, rng, size)
        confirmed += len(told.confirmed)
        faults = compare(before, told, marks)
        if tried % 3 == 0:
            faults += exported(table, marks, folder / "corrected.csv")
        wrong += [f"review {seed}-{tried} ({blow}): {fault}" for fault in faults]
    return {"tried": tried, "wrong": wrong, "struck": tried, "confirmed": confirmed}


def write_table(path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=ROWS) > 0).astype(int)
    rows = np.column_stack([X, y])
    np.savetxt(path, rows, delimiter=",", header="a,b,c,y", comments="", fmt="%.6g")
    return path


class Told:
    """What the server said to the reviewers, and how it ended."""

    def __init__(self):
        self.confirmed = {}  # number of the mark: (row, kind, label, reviewer)
        self.waiting = 0  # marks without an answer
        self.refused = []
        self.errors = ""


def review(table, marks, blow, rng, size):
    """A server that is struck while marks are posted; what was answered."""
    told = Told()
    process = subprocess.Popen(
        [sys.executable, "-m", "gemmed", "review", str(table), "--target", "y",
         "--marks", str(marks), "--no-browser"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        preexec_fn=limits(file_size=size),
    )  # fmt: skip
    timer = threading.Timer(300, process.kill)
    timer.start()
    try:
        lines = iter(process.stdout.readline, "")
        address = next(
            (found[0] for line in lines if (found := re.search(r"http://\S+", line))), ""
        )
        assert address, process.stderr.read()
        done = threading.Event()
        posting = [
            threading.Thread(target=_post_marks, args=(address, f"r{i}", told, rng.random(), done))
            for i in range(REVIEWERS)
        ]
        for thread in posting:
            thread.start()
        if rng.random() < 0.3:
            _opener(address)("/api/refit", {})  # a fit runs at the same time
        time.sleep(rng.uniform(0.0, 1.5))
        if blow == "full":
            blow = signal.SIGTERM
            time.sleep(1.0)
        process.send_signal(blow)
        for thread in posting:
            thread.join(60)
        done.set()
        told.errors = process.communicate(timeout=60)[1]
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    return told


def _opener(address):
    """Function that posts as the page does; its answer is a status and an object."""
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
    )
    origin = address.split("/?")[0]
    opener.open(address, timeout=60).read()

    def post(path, content):
        headers = {"Origin": origin, "Content-Type": "application/json"}
        request = urllib.request.Request(origin + path, json.dumps(content).encode(), headers)
        try:
            with opener.open(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    return post


def _post_marks(address, reviewer, told, seed, done):
    """Marks, one after another, until the server is gone."""
    rng = random.Random(seed)
    try:
        post = _opener(address)
        while not done.is_set():
            row, kind = rng.randrange(1, ROWS + 1), rng.choice(["right", "wrong", "bad", "unsure"])
            label = rng.choice("01") if kind == "wrong" else None
            given = {"row": row, "mark": kind, "reviewer": reviewer, "label": label}
            told.waiting += 1
            status, answer = post("/api/mark", given)
            told.waiting -= 1
            if status == 200:
                told.confirmed[answer["id"]] = (row - 1, kind, label, reviewer)
            else:
                told.refused.append((status, answer))
    except (OSError, ValueError, http.client.HTTPException):
        return  # the blow


def stored(marks):
    """Marks of a file by number; the file is opened as it was left."""
    with closing(sqlite3.connect(marks)) as database:
        [[whole]] = database.execute("PRAGMA integrity_check")
        assert whole == "ok", whole
        rows = database.execute("SELECT id, row, kind, label, reviewer FROM marks")
        return {number: tuple(rest) for number, *rest in rows}


def compare(before, told, marks):
    """What is wrong with the file after the blow."""
    after = stored(marks)
    faults = []
    lost = [n for n, mark in {**before, **told.confirmed}.items() if after.get(n) != mark]
    if lost:
        faults.append(f"{len(lost)} confirmed marks are lost")
    more = len(after) - len(before) - len(told.confirmed)
    if more > told.waiting:
        faults.append(f"{more} marks that nobody was told of, {told.waiting} were waited for")
    bad = [r for r in told.refused if r[0] not in (400, 507) or "problem" not in r[1]]
    if bad:
        faults.append(f"answer {bad[0]}")
    if "Traceback" in told.errors:
        faults.append(told.errors[-300:])
    return faults


def exported(table, marks, out):
    """What is wrong with an export of what is left."""
    done = gemmed("review", table, "--target", "y", "--marks", marks, "--export", out)
    if done.returncode:
        return [f"no export: {done.stderr.strip()[-200:]}"]
    return []
