"""The attack: hostile files, strange data, kills, full disks; how many cases, how many wrong.

    python tests/attack/run.py                       every group for two seconds of processor time
    python tests/attack/run.py csv model --seconds 600 --seed 7
    python tests/attack/run.py --keep findings       files of wrong cases, for the corpus
    python tests/attack/run.py kills stops full-disk no-memory cluster review --struck 100

The exit code is the number of groups with a wrong case. Every group of files runs in a process of
its own with at most 4 GB of address space; a crash of it counts as a wrong case.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

if __package__ is None:
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from attack.limited import GIGABYTE, run

SLOWEST = 10.0
"""Seconds of processor time that a small file may take."""

MORE = ("struck", "confirmed", "endless", "on a full file system")
"""What some groups count besides."""


def main(arguments=None):
    from attack.faults import FAULTS

    groups = [*targets(), "estimators", *FAULTS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(groups))
    parser.add_argument("--seconds", type=float, default=2.0, help="of each group (default: 2)")
    parser.add_argument(
        "--struck",
        type=int,
        metavar="N",
        help="faults: until N commands were struck, not --seconds",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", metavar="FOLDER", help="where to put the files of wrong cases")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.groups) - set(groups)
    if unknown:
        parser.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(groups)}")
    if options.child:
        print(json.dumps({name: child(name, options) for name in options.groups}))
        return 0
    print(f"{'group':12} {'tried':>7} {'wrong':>6} {'refused':>8} {'slowest':>9} {'memory':>9}")
    wrong = 0
    for name in options.groups or groups:
        found = attack_groups([name], options.seconds, options.seed, options.keep, options.struck)
        found = found[name]
        wrong += bool(found["wrong"])
        print(
            f"{name:12} {found['tried']:7} {len(found['wrong']):6} {found.get('refused', 0):8} "
            f"{found.get('slowest', 0.0):7.2f} s {found.get('memory', 0) / 1e6:6.0f} MB"
            + "".join(f"  {found[more]} {more}" for more in MORE if more in found),
            flush=True,
        )
        for line in found["wrong"][:20]:
            print(f"    {line}")
    return wrong


def attack_groups(names, seconds, seed=0, keep=None, struck=None):
    """What came of each group: tried, wrong (a list), refused, slowest, memory.

    Groups of files share one process: half of a short attack is imports.
    """
    from attack.faults import FAULTS

    with tempfile.TemporaryDirectory() as folder:
        found = {
            name: FAULTS[name](Path(folder), _until(seconds, struck), seed)
            for name in names
            if name in FAULTS
        }
        rest = [name for name in names if name not in FAULTS]
        if not rest:
            return found
        command = [sys.executable, __file__, *rest, "--child", "--seconds", seconds, "--seed", seed]
        command += ["--keep", keep or Path(folder) / "wrong"]
        limit = len(rest) * (10 * seconds + 120)
        result = run(command, memory=4 * GIGABYTE, seconds=limit, timeout=3600)
        lines = result.stdout.splitlines()
        if result.returncode or not lines:
            last = result.stderr.strip().splitlines()[-1:] or [f"exit code {result.returncode}"]
            ended = {"tried": 0, "wrong": [f"the process ended: {last[0]}"]}
            return found | dict.fromkeys(rest, ended)
        return found | json.loads(lines[-1])


def _until(seconds, struck):
    """Whether faults are enough, by how many commands were struck or, without it, by the time."""
    end = time.perf_counter() + seconds
    if struck is None:
        return lambda _: time.perf_counter() > end
    return lambda so_far: so_far >= struck


def targets():
    """Groups of files by name."""
    from attack.differential import DIFFERENTIAL
    from attack.files import TARGETS

    return {**TARGETS, **DIFFERENTIAL}


def child(name, options):
    """What came of one group, in this process."""
    if name == "estimators":
        from attack.estimators import attack_estimators

        return attack_estimators(options.seconds, options.seed)
    keep = Path(options.keep)
    keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        return attack_files(targets()[name](folder), name, options.seconds, options.seed, keep)


def attack_files(target, name, seconds, seed, keep):
    """Files of one kind until the time is over."""
    import resource
    import warnings

    from attack.mutations import generator

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    warnings.simplefilter("ignore")
    _outcome(target, target.case(0, generator(seed, 0)))  # imports are not counted
    before, begin, number = peak(), time.process_time(), 0
    wrong, refused, slowest = [], 0, 0.0
    while time.process_time() < begin + seconds or number < len(target.seeds):
        content = target.case(number, generator(seed, number))
        current = keep / f"{name}-current"
        current.write_bytes(content)  # stays if the process dies
        start = time.process_time()
        fault = _outcome(target, content)
        taken = time.process_time() - start
        slowest = max(slowest, taken)
        if taken > SLOWEST:
            fault = f"{taken:.0f} s"
        if fault == "refused":
            refused += 1
        elif fault:
            wrong.append(f"{name} {seed}-{number}: {fault}")
            (keep / f"{name}-{seed}-{number}").write_bytes(content)
        number += 1
    current.unlink()
    return {
        "tried": number,
        "wrong": wrong,
        "refused": refused,
        "slowest": slowest,
        "memory": peak() - before,
    }


def _outcome(target, content):
    """None if the file was read, "refused", or what is wrong."""
    path = target.folder / f"attacked{target.suffix}"
    path.write_bytes(content)
    try:
        target.attack(path)
    except target.errors as error:
        return "refused" if len(str(error).splitlines()) <= 1 else f"several lines: {error!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


if __name__ == "__main__":
    sys.exit(main())
