"""``gemmed review``: judge suspicious rows in a browser, and write the corrected table."""

from __future__ import annotations

import argparse
import getpass
import json
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.exceptions import ReviewError
from .._core.optional import require
from .._core.words import counted
from .checks_plan import add_strata_option
from .commands import add_json_option, add_parser, add_raw_cells_option
from .outputs import check_not_an_input, check_table_output, note_formulas
from .progress import FitProgress
from .reading_options import reading_of
from .terminal import note, warnings_as_notes
from .training import (
    add_training_options,
    classifier_of,
    handling_of,
    report_left_out,
    report_notes,
    roles_of,
)

if TYPE_CHECKING:
    from ..review.marks import MarkStore
    from ..review.subjects import Subject
    from ..rows.tables import Table

LABEL = "label"
"""Column with the classes of a manifest, unless --target names another one."""
EPILOG = """examples:
  gemmed review patients.csv --target diagnosis --id patient
  gemmed review clips.csv
  gemmed review patients.csv --target diagnosis --checks 120 --until 0.02
  gemmed review patients.csv --target diagnosis --export corrected.csv --bad flag

A page opens on this computer and shows one suspicious row after another: its values with the odd
ones marked, the usual values, its neighbours, the suggested class. A table with a column path that
names sound files is a manifest. The page then plays the recordings, and the classes are in column
label unless --target names another one.

Marks are kept in TABLE.review.sqlite beside the table. Each is on disk before the next row appears.
The same command continues where it stopped.

--checks draws rows at random. The page then shows the share of faults with an interval. --until and
--until-precision set a goal.

--export writes the table as it was with the corrected labels, and a log of the changes beside it.
It needs no fit and no browser.
"""


def add_command(commands: Any) -> None:
    """Register the command."""
    parser = add_parser(
        commands,
        "review",
        run,
        summary="judge suspicious rows in a browser and correct the table",
        description="Judge the suspicious rows of a labelled table one after another.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--id",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns that name the rows (identifier, annotator); shown, not learned from",
    )
    parser.add_argument(
        "--marks", metavar="FILE", help="where marks are kept (default: TABLE.review.sqlite)"
    )
    parser.add_argument("--reviewer", metavar="NAME", help="(default: your login name)")
    parser.add_argument(
        "--changed",
        choices=["refuse", "match"],
        default="refuse",
        help="if the table has changed since: refuse, or follow the rows by their content",
    )
    parser.add_argument("--export", metavar="FILE", help="write the corrected table and stop")
    parser.add_argument(
        "--bad",
        choices=["drop", "flag", "keep"],
        default="drop",
        help="with --export: bad measurements are left out, flagged in a column, or kept",
    )
    parser.add_argument(
        "--labels",
        choices=["corrected", "given"],
        default="corrected",
        help="with --export: corrected labels, or labels as given and a column known_label with "
        "the true ones, for gemmed fit --known known_label",
    )
    parser.add_argument(
        "--checks",
        type=int,
        metavar="N",
        help="draw N rows at random, likely faults more often, and estimate the share of faults "
        "from them; --seed fixes the draws; draw before the first mark",
    )
    parser.add_argument(
        "--until",
        type=float,
        metavar="SHARE",
        help="goal of the checks: with 95 %% confidence at most this share of the unchecked labels "
        "is wrong (as 0.02); likely faults then come between the draws, to reach it sooner",
    )
    parser.add_argument(
        "--until-precision",
        type=float,
        metavar="SHARE",
        help="another goal: with 95 %% confidence at least this share of the flagged rows is "
        "faulty (as 0.9); rows are then drawn from the flagged ones only",
    )
    add_strata_option(parser, "--checks")
    parser.add_argument(
        "--plan", metavar="FILE", help="take the draws that gemmed audit --plan FILE has written"
    )
    parser.add_argument("--port", type=int, default=0, help="(default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    add_raw_cells_option(parser)
    add_json_option(parser, "with --export: print the summary as JSON")
    add_training_options(parser)


def run(options: argparse.Namespace) -> int:
    """Serve the page, or export."""
    if options.table == "-":
        raise ValueError("TABLE must be a file: a review is continued later")
    if not 0 <= options.port < 65536:
        raise ValueError(f"--port {options.port} must lie between 0 and 65535")
    for name in ("until", "until_precision"):
        goal = getattr(options, name)
        if goal is not None and not 0.0 < goal < 1.0:
            raise ValueError(f"--{name.replace('_', '-')} {goal} must lie between 0 and 1")
    if options.plan is not None and (options.checks is not None or options.strata is not None):
        raise ValueError("--plan has its rows already: leave out --checks and --strata")
    if options.until is not None and options.until_precision is not None:
        raise ValueError("--until and --until-precision are two goals: choose one")
    path = Path(options.table)
    store_path = Path(options.marks or f"{options.table}.review.sqlite")
    if options.export is not None:
        check_table_output(options.export, "--export")
        check_not_an_input(options.export, options.table, str(store_path), name="--export")
        if not store_path.exists():
            raise ReviewError(f"there are no marks: {str(store_path)!r} does not exist")
    else:
        for package in ("starlette", "uvicorn", "jinja2"):
            require(package, "the review page needs", "review")
    from ..review.attached import attach
    from ..review.marks import MarkStore

    table = _read(options)
    if options.target is None:
        options.target = _default_target(table)
    table.require_columns([options.target], "target")
    store = MarkStore(store_path)
    try:
        said = attach(store, table, path, options.target, match=options.changed == "match")
        if said:
            note(said)
        if options.export is not None:
            return _export(options, table, store)
        return _serve(options, table, store, path)
    finally:
        store.close()


def _read(options: argparse.Namespace) -> Table:
    from ..rows.tables import read_table

    return read_table(options.table, **reading_of(options))


def _default_target(table: Table) -> str:
    from ..review.recordings import is_manifest

    if not is_manifest(table) or LABEL not in table.columns:
        raise ValueError("--target COLUMN is needed: the column with the class of each row")
    return LABEL


def _export(options: argparse.Namespace, table: Table, store: MarkStore) -> int:
    from ..review.corrected import export
    from ..review.recordings import is_manifest

    table.require_columns(options.id, "id")
    identifiers = tuple(dict.fromkeys(options.id))
    if not identifiers and is_manifest(table):
        identifiers = ("path",)
    done = export(
        table,
        options.target,
        store,
        options.export,
        bad=options.bad,
        labels=options.labels,
        identifiers=identifiers,
        raw_cells=options.raw_cells,
    )
    note_formulas(done.formulas)
    if options.json:
        print(json.dumps(done._asdict(), indent=1))
    else:
        corrected = "corrected" if done.known is None else f"wrong (column {done.known})"
        print(
            f"{counted(done.corrected, 'label')} {corrected}, {counted(done.bad, 'bad row')} "
            f"({'left out' if options.bad == 'drop' else options.bad}), {done.disputed} disputed: "
            f"{done.table}, log {done.log}" + (f", checks {done.checks}" if done.checks else "")
        )
    return 0


def _subject(options: argparse.Namespace, table: Table) -> Subject:
    from ..review.recordings import RecordingSubject, is_manifest
    from ..review.subjects import TableSubject

    classifier = classifier_of(options)
    identifiers = tuple(dict.fromkeys(options.id))
    table.require_columns(list(identifiers), "id")
    if is_manifest(table):
        require("soundfile", "recordings need", "audio")
        recordings = RecordingSubject(
            table,
            options.target,
            classifier,
            folder=Path(options.table).parent,
            identifiers=identifiers,
            group=options.group,
        )
        for problem in recordings.problems[:5]:
            note(f"left out: {problem}")
        if len(recordings.problems) > 5:
            note(f"and {len(recordings.problems) - 5} more recordings that cannot be used")
        return recordings
    further = () if options.group is None else (options.group,)
    subject = TableSubject(
        table,
        roles_of(options, not_features=identifiers),
        classifier,
        scaling=options.scaling,
        handling=handling_of(options),
        identifiers=tuple(dict.fromkeys((*identifiers, *further))),
    )
    report_notes(subject.data.notes)
    report_left_out(subject.data.plan, subject.data.n_unlabelled)
    return subject


def _serve(options: argparse.Namespace, table: Table, store: MarkStore, path: Path) -> int:
    import uvicorn

    from ..checks import load_plan
    from ..review.planned_checks import N_CHECKS, strata_of
    from ..review.server import make_app
    from ..review.session import ReviewSession, checked_name

    reviewer = checked_name(options.reviewer or _login())
    # The port is taken before the fit: a port in use is known at once.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        try:
            listener.bind(("127.0.0.1", options.port))
        except OSError as error:
            raise OSError(
                f"--port {options.port} cannot be used ({error.strerror}): choose another one"
            ) from error
        port = int(listener.getsockname()[1])
        with warnings_as_notes(), FitProgress():
            session = ReviewSession(_subject(options, table), store, path, reviewer)
            session.fit()
            stored, plan = "plan" in store.meta(), None
            seed = None if stored and options.checks is None else options.seed
            if options.plan is not None:
                plan = load_plan(options.plan, digest=store.meta()["sha256"])
                if options.seed not in (0, plan.seed):
                    raise ReviewError(f"--seed {options.seed}: the plan has seed {plan.seed}")
                seed = None
            strata = None
            if options.strata is not None and not stored:
                n = options.checks or N_CHECKS
                findings = session.fitted.findings
                strata = strata_of(options.strata, table, findings, options.target, n)
            elif options.strata not in (None, store.meta().get("plan_strata")):
                raise ReviewError(
                    f"--strata {options.strata}: the draws were made without it; begin again with "
                    "another --marks"
                )
            session.plan_draws(
                options.checks,
                goal=options.until,
                precision=options.until_precision,
                strata=strata,
                seed=seed,
                plan=plan,
            )
            if strata is not None:
                store.set_meta({"plan_strata": options.strata})
        listener.listen(128)  # who opens the address at once waits a moment
        token = secrets.token_urlsafe(24)
        address = f"http://127.0.0.1:{port}/?token={token}"
        for sentence in (
            session.fitted.findings.signal_sentence,
            session.fitted.findings.sentence(),
        ):
            print(sentence)
        print(f"review at {address}  (Ctrl-C ends it; marks are in {store.path})", flush=True)
        if not options.no_browser and sys.stdout.isatty():
            import webbrowser

            webbrowser.open(address)
        config = uvicorn.Config(
            make_app(session, token, port),
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        uvicorn.Server(config).run(sockets=[listener])
    return 0


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user, in a container
        return "reviewer"
