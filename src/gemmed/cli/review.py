"""``gemmed review``: judge suspicious rows in a browser, and write the corrected table."""

import argparse
import getpass
import secrets
import socket
import sys
from pathlib import Path

from .._core.exceptions import ReviewError
from .._core.optional import require
from .._core.words import counted
from ..acoustics.manifest import LABEL, lists_recordings
from ..checks import load_plan
from ..review.corrected import export
from ..review.marks import MarkStore, attach
from ..review.server import make_app
from ..review.session import ReviewSession, checked_name
from ..review.subjects import Subject, recordings_subject, table_subject
from ..rows.tables import Table, read_table
from .options import reading_of
from .outputs import check_outputs, note_formulas
from .terminal import fit_progress, note, print_json, warnings_as_notes
from .training import classifier_of, labelled, names_of_rows


def run(options: argparse.Namespace) -> int:
    """Serve the page, or export."""
    if options.table == "-":
        raise ValueError("TABLE must be a file: a review is continued later")
    if options.plan is not None and (options.checks is not None or options.strata is not None):
        raise ValueError("--plan has its rows already: leave out --checks and --strata")
    if options.until is not None and options.until_precision is not None:
        raise ValueError("--until and --until-precision are two goals: choose one")
    path = Path(options.table)
    store_path = Path(options.marks or f"{options.table}.review.sqlite")
    if options.export is not None:
        check_outputs(options, [options.table, str(store_path)], tables=["export"])
        if not store_path.exists():
            raise ReviewError(f"there are no marks: {str(store_path)!r} does not exist")
    else:
        for package in ("starlette", "uvicorn", "jinja2"):
            require(package, "the review page needs", "review")
    table = read_table(options.table, **reading_of(options))
    if options.target is None:
        if not lists_recordings(table) or LABEL not in table.columns:
            raise ValueError("--target COLUMN is needed: the column with the class of each row")
        options.target = LABEL
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


def _export(options: argparse.Namespace, table: Table, store: MarkStore) -> int:
    table.require_columns(options.id, "id")
    identifiers = tuple(dict.fromkeys(options.id))
    if not identifiers and lists_recordings(table):
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
        print_json(done._asdict())
    else:
        corrected = "corrected" if done.known is None else f"wrong (column {done.known})"
        print(
            f"{counted(done.corrected, 'label')} {corrected}, {counted(done.bad, 'bad row')} "
            f"({'left out' if options.bad == 'drop' else options.bad}), {done.disputed} disputed: "
            f"{done.table}, log {done.log}" + (f", checks {done.checks}" if done.checks else "")
        )
    return 0


def _subject(options: argparse.Namespace, table: Table) -> Subject:
    classifier, identifiers = classifier_of(options), tuple(dict.fromkeys(options.id))
    if not lists_recordings(table):
        data = labelled(options, table, identifiers)
        return table_subject(
            table,
            data,
            classifier,
            target=options.target,
            scaling=options.scaling,
            identifiers=names_of_rows(options),
        )
    require("soundfile", "recordings need", "audio")
    table.require_columns(list(identifiers), "id")
    subject = recordings_subject(
        table, options.target, classifier, identifiers=identifiers, group=options.group
    )
    for problem in subject.problems[:5]:
        note(f"left out: {problem}")
    if len(subject.problems) > 5:
        note(f"and {len(subject.problems) - 5} more recordings that cannot be used")
    return subject


def _serve(options: argparse.Namespace, table: Table, store: MarkStore, path: Path) -> int:
    import uvicorn

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
        with warnings_as_notes(), fit_progress():
            session = ReviewSession(_subject(options, table), store, path, reviewer)
            session.fit()
            plan, is_stored = None, "plan" in store.meta()
            seed = None if is_stored and options.checks is None else options.seed
            if options.plan is not None:
                plan = load_plan(options.plan, digest=store.meta()["sha256"])
                if options.seed not in (0, plan.seed):
                    raise ReviewError(f"--seed {options.seed}: the plan has seed {plan.seed}")
                seed = None
            session.plan_draws(
                options.checks,
                goal=options.until,
                precision=options.until_precision,
                strata=options.strata,
                seed=seed,
                plan=plan,
            )
        listener.listen(128)  # who opens the address at once waits a moment
        token = secrets.token_urlsafe(24)
        address = f"http://127.0.0.1:{port}/?token={token}"
        findings = session.fitted.findings
        print(findings.signal_sentence)
        print(findings.sentence())
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
