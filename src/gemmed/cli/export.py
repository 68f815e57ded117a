"""``gemmed export``: a model file to an ONNX graph."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .._core.optional import require
from .commands import add_json_option, add_parser
from .outputs import check_not_an_input, check_output
from .sound_predictions import is_sound_model
from .terminal import busy, note, say, warnings_as_notes

SUFFIX = ".onnx"
EPILOG = """examples:
  gemmed export diagnosis.gemmed --out diagnosis.onnx
  gemmed export diagnosis.gemmed --out diagnosis.onnx --dtype float32 --json

The graph has the inputs X (numbers, NaN where one is missing) and, if the model has such columns,
categories (texts, "" where one is missing). Its outputs are label, decision and probabilities. The
order of the columns is printed and stored in the file. A model of recordings is exported from its
MFCCs on. Screening and explanations stay with gemmed.
"""


def add_command(commands: Any) -> None:
    """Register the command."""
    parser = add_parser(
        commands,
        "export",
        run,
        summary="write a saved model as an ONNX graph",
        description="Write a model of gemmed fit as an ONNX graph, for devices and services "
        "without Python.",
        epilog=EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help="file written by gemmed fit")
    parser.add_argument("--out", required=True, metavar="FILE", help="file to write, NAME.onnx")
    parser.add_argument(
        "--dtype",
        choices=["float64", "float32"],
        default="float64",
        help="of all numbers; float32 is half as large, with errors of 1e-6 to 2e-4 in what was "
        "measured (default: float64)",
    )
    add_json_option(parser)


def plan_formats(model: Any) -> dict[str, Any]:
    """Columns of numbers that are not written as plain numbers, and how they are."""
    from ..estimators.table_preparation import TablePreparation

    first = model[0] if hasattr(model, "steps") else model
    return first.plan_.formats if isinstance(first, TablePreparation) else {}


def run(options: argparse.Namespace) -> int:
    """Load, export, and say what the graph takes."""
    require("onnx", "gemmed export needs", "onnx")
    if not options.out.lower().endswith(SUFFIX):
        raise ValueError(f"--out {options.out!r} must be a name that ends in {SUFFIX}")
    check_output(options.out)
    check_not_an_input(options.out, options.model)
    from ..io.model_files import load_model
    from ..io.onnx_export import export_onnx

    with warnings_as_notes():
        model = load_model(options.model)
    sound = None
    if is_sound_model(model):
        sound = {"rate": model[0].rate_, **model[0].settings_}
        note(
            "the graph begins at the MFCCs of a recording: compute them as "
            "gemmed.acoustics.RecordingMFCC does, with the settings in the summary"
        )
        model = model[1:]
    for name, form in plan_formats(model).items():
        unit = "days since 1970" if form.date else f"in {form.unit!r}" if form.unit else "plain"
        note(f"column {name!r} is text in the table; the graph takes numbers, {unit}")
    with busy("writing"):
        done = export_onnx(model, options.out, dtype=options.dtype)
    summary: dict[str, Any] = {
        "model": done.path,
        "bytes": done.n_bytes,
        "dtype": done.dtype,
        "inputs": {one.name: one.columns for one in done.inputs},
        "outputs": ["label", "decision", "probabilities"],
        "classes": done.classes,
    }
    if sound is not None:
        summary["mfcc"] = sound
    if options.json:
        print(json.dumps(summary, indent=1))
        return 0
    for one in done.inputs:
        kind = "texts" if one.is_text else f"numbers, {done.dtype}"
        shown = ", ".join(one.columns[:8]) + ", ..." * (len(one.columns) > 8)
        say(f"input          {one.name} ({kind}), {len(one.columns)} columns: {shown}")
    if sound is not None:
        say(f"mfcc           {', '.join(f'{name}={value}' for name, value in sound.items())}")
    say("outputs        label, decision, probabilities")
    say(f"classes        {', '.join(map(str, done.classes))}")
    say(f"model          {done.path} ({done.n_bytes / 1000:.0f} kB)")
    return 0
