"""Commands that are killed, stopped, or run out of disk or memory at random moments.

What may be lost is the work since the last finished piece. What must not: the file that was there
before, or a whole new one in its place; and the same command has to end well when run again.
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .limited import environment, forked_gemmed, gemmed, import_everything
from .reviewing import reviews

OLD = b"what was there before\n"
DISK_BYTES = 200_000_000
COMMANDS = ("fit", "audit", "stream", "features") * 5 + ("reproduce",)
"""In turn; reproduce takes ten times as long as the others."""


class Job:
    """A command with its inputs in a folder of its own."""

    def __init__(self, folder, name):
        self.folder = Path(folder) / name
        self.folder.mkdir()
        self.name = name
        self.arguments, self.out = getattr(self, f"_{name}")()
        start = time.perf_counter()
        done = self.run()
        assert done.returncode == 0, done.stderr
        self.seconds = time.perf_counter() - start
        self.expected = self._digest()
        self.again_takes_up = name in ("features", "reproduce")

    def run(self, **options):
        """The whole command; one that starts processes of its own is not forked."""
        if self.name == "cluster":
            return gemmed(*self.arguments)
        return forked_gemmed(*self.arguments, **options)

    def _digest(self):
        """Of the result: tables are the same bytes again, models are not (archives have times)."""
        content = self.out.read_bytes()
        if self.name in ("fit", "cluster"):
            from gemmed import load_model

            model = load_model(self.out)[-1]
            content = np.round(model.nominal_proba_, 6).tobytes()
        return hashlib.sha256(content).hexdigest()

    def _table(self):
        path = self.folder / "t.csv"
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 4))
        y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
        rows = np.column_stack([X, y])
        np.savetxt(path, rows, delimiter=",", header="a,b,c,d,y", comments="", fmt="%.6g")
        return path

    def _fit(self):
        out = self.folder / "m.gemmed"
        return ["fit", self._table(), "--target", "y", "--out", out], out

    def _audit(self):
        out = self.folder / "suspicious.csv"
        more = ["--threshold", "0.1"]
        return ["audit", self._table(), "--target", "y", "--out", out, *more], out

    def _stream(self):
        arguments, out = self._audit()
        return [*arguments, "--stream"], out

    def _cluster(self):
        out = self.folder / "c.gemmed"
        options = ["--scheduler", "local", "--workers", "1", "--components", "30", "--gamma", "0.3"]
        return ["fit", self._table(), "--target", "y", "--out", out, *options], out

    def _features(self):
        from gemmed.acoustics import ManifestEntry, write_audio, write_manifest

        entries = []
        for i in range(12):
            signal_ = 0.1 * np.random.default_rng(i).standard_normal(24000)
            write_audio(self.folder / f"{i}.wav", signal_, 4000)
            entries.append(ManifestEntry(f"{i}.wav", str(i % 2), f"s{i}", "1"))
        write_manifest(self.folder / "m.csv", entries)
        out = self.folder / "f.parquet"
        return ["features", self.folder / "m.csv", "--out", out, "--jobs", "1"], out

    def _reproduce(self):
        out = self.folder / "results"
        options = ["--runs", "1", "--jobs", "1", "--out", out]
        return ["reproduce", "scores", *options], out / "scores.csv"

    def prepare(self, rng):
        """An old result or none, and sometimes nothing kept of earlier runs."""
        self.had_old = rng.random() < 0.5
        self.out.parent.mkdir(exist_ok=True)
        if self.had_old:
            self.out.write_bytes(OLD)
        else:
            self.out.unlink(missing_ok=True)
        for path in sorted(self.folder.rglob("*"), reverse=True):
            kept = ".parts" in str(path) or "/runs/" in str(path)
            if kept and path.is_file() and rng.random() < 0.5:
                path.unlink()

    def lost(self):
        """What is wrong with the result now, or None."""
        if not self.out.exists():
            return "the old file is gone" if self.had_old else None
        if self.had_old and self.out.read_bytes() == OLD:
            return None
        try:
            whole = self._digest() == self.expected
        except Exception as error:
            return f"half a file: {error}"
        return None if whole else "another result"

    def left_over(self):
        """Temporary files."""
        return [path.name for path in self.folder.rglob(".*.part*")]

    def clean(self):
        for path in self.folder.rglob(".*.part*"):
            path.unlink()

    def run_again(self):
        """What is wrong with a second run, or None."""
        start = time.perf_counter()
        done = self.run()
        if not self.again_takes_up:  # the first one was perhaps slow: blows have to come in time
            self.seconds = min(self.seconds, time.perf_counter() - start)
        if done.returncode:
            return f"does not go on: {done.stderr.strip()[-200:]}"
        return None if self._digest() == self.expected else "another result after going on"


def struck(job, rng, number):
    """The command, sent a signal at a random moment; its exit code."""
    moment, start = rng.uniform(0.1, 0.9) * job.seconds, time.perf_counter()
    if job.name != "cluster":
        code = job.run(blow=(moment, number)).returncode
        if code == 0:
            job.seconds = min(job.seconds, time.perf_counter() - start)
        return code
    process = subprocess.Popen(
        [sys.executable, "-m", "gemmed", *map(str, job.arguments)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(),
        start_new_session=True,
    )  # fmt: skip
    try:
        process.wait(moment)
        job.seconds = min(job.seconds, time.perf_counter() - start)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    process.communicate(timeout=300)
    return process.returncode


def _attack(folder, until, seed, names, blow, *, leaves_nothing, go_on_every=4):
    """Strike until ``until(struck)`` says that it is enough, every command at least once."""
    import_everything()
    jobs, wrong, tried, finished = {}, [], 0, 0
    rng = random.Random(seed)
    while tried < len(set(names)) or not until(tried - finished):
        name = names[tried % len(names)]
        job = jobs[name] = jobs.get(name) or Job(folder, name)
        job.prepare(rng)
        code = blow(job, rng)
        tried += 1
        finished += code == 0
        faults = [job.lost()]
        if leaves_nothing and job.left_over():
            faults.append(f"left over: {job.left_over()}")
        if code == 0 and job.had_old and job.out.read_bytes() == OLD:
            faults.append("said to be done, and is not")
        job.clean()
        if job.again_takes_up or tried % go_on_every == 0:
            faults.append(job.run_again())
        wrong += [f"{name} {seed}-{tried}: {fault}" for fault in faults if fault]
    return {"tried": tried, "wrong": wrong, "struck": tried - finished}


def kills(folder, until, seed):
    """kill -9: temporary files may stay, for nobody can remove them."""
    return _attack(
        folder, until, seed, COMMANDS,
        lambda job, rng: struck(job, rng, signal.SIGKILL), leaves_nothing=False,
    )  # fmt: skip


def stops(folder, until, seed):
    """Ctrl-C, an end of the session or of the computer: nothing may stay."""
    return _attack(
        folder, until, seed, COMMANDS,
        lambda job, rng: struck(job, rng, rng.choice([signal.SIGINT, signal.SIGTERM])),
        leaves_nothing=True,
    )  # fmt: skip


def full_disk(folder, until, seed):
    """A file system with little room left; where none can be mounted, files that cannot grow."""
    disk = SmallDisk(folder / "disk")

    def blow(job, rng):
        size = int(rng.choice([0, 100, 1000, 10_000, 50_000]) * rng.uniform(0.5, 1.5))
        if disk.is_mounted:
            with disk.room_for(size):
                done = job.run()
        else:
            done = job.run(file_size=size)
        if done.returncode and "Traceback" in done.stderr:
            raise AssertionError(f"{job.name} with {size} bytes: {done.stderr[-300:]}")
        return done.returncode

    with disk:
        found = _attack(disk.folder, until, seed, COMMANDS, blow, leaves_nothing=True)
    return {**found, "on a full file system": found["tried"] if disk.is_mounted else 0}


class SmallDisk:
    """A file system in memory, whose size can be changed; none without the right to mount."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir()
        self.is_mounted = self._mount(f"size={DISK_BYTES}")

    def _mount(self, options):
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False

    @contextmanager
    def room_for(self, size):
        """So many bytes are left, in whole pages."""
        blocks = os.statvfs(self.folder)
        used = (blocks.f_blocks - blocks.f_bfree) * blocks.f_frsize
        assert self._mount(f"remount,size={max(used + size, 4096)}")
        try:
            yield
        finally:
            assert self._mount(f"remount,size={DISK_BYTES}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.is_mounted:
            subprocess.run(["umount", str(self.folder)], check=True)


def no_memory(folder, until, seed):
    """An address space that ends somewhere between the start and the result.

    With some megabytes left some runs do not end: no thread can be started, and a library waits for
    one. They are ended after a while, and counted.
    """
    endless = 0

    def blow(job, rng):
        nonlocal endless
        more, limit = rng.uniform(0.0, 1.2e8), 10.0 * job.seconds + 10.0
        done = job.run(more_memory=int(more), seconds=limit, timeout=limit)
        endless += done.returncode in (-signal.SIGKILL, -signal.SIGXCPU)
        return done.returncode

    found = _attack(folder, until, seed, COMMANDS, blow, leaves_nothing=False)
    return {**found, "endless": endless}


def cluster(folder, until, seed):
    """A fit on a Dask cluster of its own, killed and stopped."""

    def blow(job, rng):
        return struck(job, rng, rng.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))

    return _attack(folder, until, seed, ("cluster",), blow, leaves_nothing=False)


FAULTS = {
    "kills": kills,
    "stops": stops,
    "full-disk": full_disk,
    "no-memory": no_memory,
    "cluster": cluster,
    "review": reviews,
}
