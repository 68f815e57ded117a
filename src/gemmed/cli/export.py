"""``gemmed export``: a model file to an ONNX graph."""

import argparse
from typing import Any

from .._core.optional import require
from ..estimators.table_columns import plan_source
from ..io.model_files import load_model
from ..io.onnx_export import export_onnx
from .outputs import check_outputs
from .recordings import is_sound_model
from .terminal import busy, note, report, warnings_as_notes

SUFFIX = ".onnx"


def run(options: argparse.Namespace) -> int:
    """Load, export, and say what the graph takes."""
    require("onnx", "gemmed export needs", "onnx")
    if not options.out.lower().endswith(SUFFIX):
        raise ValueError(f"--out {options.out!r} must be a name that ends in {SUFFIX}")
    check_outputs(options, [options.model], files=["out"])
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
    # Numbers that the table writes in another way.
    columns = plan_source(model)
    for name, form in (columns.plan_.formats if columns is not None else {}).items():
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
    lines = []
    for one in done.inputs:
        kind = "texts" if one.is_text else f"numbers, {done.dtype}"
        shown = ", ".join(one.columns[:8]) + ", ..." * (len(one.columns) > 8)
        lines.append(f"input          {one.name} ({kind}), {len(one.columns)} columns: {shown}")
    if sound is not None:
        settings = ", ".join(f"{name}={value}" for name, value in sound.items())
        lines.append(f"mfcc           {settings}")
    lines += [
        "outputs        label, decision, probabilities",
        f"classes        {', '.join(map(str, done.classes))}",
        f"model          {done.path} ({done.n_bytes / 1000:.0f} kB)",
    ]
    report(summary, lines, as_json=options.json)
    return 0
