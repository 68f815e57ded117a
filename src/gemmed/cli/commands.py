"""All commands: their options, what ``--help`` says of them, and the function that runs each.

Only the parser is here, so that help is instant. The function is imported when the command runs.
"""

from typing import Any

from ..experiments.registry import ALL, SIMULATION, TARGETS, names_of
from .options import (
    JOBS,
    JSON,
    RAW_CELLS,
    READING,
    SEED,
    SPANS,
    add,
    add_command,
    add_data,
    add_monitor,
    add_streaming,
    add_training,
)

SHELLS = ("bash", "zsh", "tcsh", "fish")
STRATA = "draw small groups more often: groups of a column, or class, or verdict"


def add_commands(commands: Any) -> None:
    """Register all commands, in the order of the help."""
    _add_audit(commands)
    _add_review(commands)
    _add_models(commands)
    _add_monitors(commands)
    _add_features(commands)
    _add_experiments(commands)


def _add_models(commands: Any) -> None:
    fit = add_command(
        commands,
        "fit",
        "train a classifier on a table and save it",
        """examples:
  gemmed fit patients.csv --target diagnosis --out diagnosis.gemmed
  gemmed fit steps.parquet --target foot --group recording --drop date --out foot.gemmed
  gemmed fit parts.csv --target ok --prior trust --kernel linear --C 10 --out parts.gemmed --json
  gemmed fit readings/ --target state --out state.gemmed          (a folder of Parquet files)
  gemmed fit plant.csv --target state --prefix _ --order time --out plant.gemmed
  gemmed fit manifest.csv --out digits.gemmed                     (columns path and label: sounds)
  gemmed fit readings.parquet --target state --scheduler local --workers 4 --out state.gemmed
  gemmed fit /shared/readings --target state --scheduler tcp://10.0.0.5:8786 --out state.gemmed

Missing numbers become the median of their column, and a further column marks them. Text becomes
one column per value. Text that differs from row to row (names, identifiers) is left out. The model
file contains no code: gemmed predict refuses files that would run any.

A table with a column path that names sound files is a manifest. The model then holds sample rate,
window, MFCC settings and principal components, and gemmed predict takes sound files. Exit code 3
means that some recordings could not be used; the others were. With the columns subject and sensor,
recordings of a subject at the same time are one sample, of which single sensors may be broken.

With --sensor or --prefix the columns of a table are sensors. Single sensors may be broken for a
while; --spans writes start and end of each fault. Missing numbers are then filled from other
columns of the sensor.

Large tables are read in blocks. 50,000 random rows then decide how columns are read and scaled. On
a cluster the workers read Parquet files themselves: all of them need the same path. The rows of a
CSV file are sent to them.
""",
        {"--out! MODEL": "model file to write", "--json": "print the summary as JSON"},
    )
    add_training(fit)
    add_data(fit)
    add_streaming(fit)
    predict = add_command(
        commands,
        "predict",
        "predict the classes of a table with a saved model",
        """examples:
  gemmed predict diagnosis.gemmed new.csv > predicted.csv
  gemmed predict diagnosis.gemmed new.csv --proba --screen 0.05 --out predicted.parquet
  gemmed predict digits.gemmed new/*.wav --screen 0.05 --out predicted.csv   (recordings)
  cat new.csv | gemmed predict diagnosis.gemmed - --json | jq '.predictions[0]'

The table is written with further columns: prediction; with --proba, proba_CLASS for each class;
with --screen, p_value and suspicious; for a model of sensors, broken_SENSOR (a probability).
Columns are found by name. Others are kept but not used.

A model of gemmed fit MANIFEST takes sound files or a manifest and processes them exactly as in
training. The column flags names silent, clipped and truncated recordings, or says why a file could
not be used (exit code 3).
""",
        {
            "MODEL": "file written by gemmed fit",
            "TABLE ...": "CSV, Parquet or Excel file, - for standard input; for a model of "
            "recordings a manifest or sound files",
            "--out FILE=-": "CSV, Parquet or Excel file to write (default: -, CSV to standard "
            "output)",
            "--proba": "add the class probabilities",
            "--screen RATE:float (0..1)": "mark rows unlike the trusted training rows; RATE is "
            "the share of good rows that may be marked by mistake, such as 0.05",
            **SPANS,
            **RAW_CELLS,
            "--json": "print JSON: a summary, and the predictions if no --out",
        },
    )
    add(predict.add_argument_group("reading the table"), READING)
    add_command(
        commands,
        "export",
        "write a saved model as an ONNX graph",
        """examples:
  gemmed export diagnosis.gemmed --out diagnosis.onnx
  gemmed export diagnosis.gemmed --out diagnosis.onnx --dtype float32 --json

The graph has the inputs X (numbers, NaN where one is missing) and, if the model has such columns,
categories (texts, "" where one is missing). Its outputs are label, decision and probabilities. The
order of the columns is printed and stored in the file. The graph of a model of recordings takes
MFCCs. Screening and explanations are not exported.
""",
        {
            "MODEL": "file written by gemmed fit",
            "--out! FILE": "file to write, NAME.onnx",
            "--dtype=float64|float32": "number type of the graph (default: float64); float32 makes "
            "the file smaller and rounds probabilities to about 1e-4",
            **JSON,
        },
    )


def _add_audit(commands: Any) -> None:
    audit = add_command(
        commands,
        "audit",
        "find wrong labels and bad measurements in a table",
        """examples:
  gemmed audit patients.csv --target diagnosis
  gemmed audit patients.csv --target diagnosis --id patient --out suspicious.csv --top 50
  gemmed audit patients.csv --target diagnosis --id patient ward --html report.html
  gemmed audit patients.csv --target diagnosis --each 50 --out suspicious.csv
  gemmed audit parts.csv --target ok --threshold 0.9 --out - | head
  gemmed audit manifest.csv --out suspicious.csv            (sound files: columns path and label)
  gemmed audit clips.csv --annotators ann bob cy --out labels.csv   (one column per annotator)
  gemmed audit answers.csv --answers clip worker label              (one answer per row)
  gemmed audit clips.csv --target genre --pred-probs net.npy forest.csv
  gemmed audit plant.csv --target state --prefix _ --order time --html timeline.html
  gemmed audit parts.csv --target ok --json | jq ".suspicious[].row"
  gemmed audit large.parquet --target ok --stream --out suspicious.csv --html report.html

columns of --out, one row per suspicious row:
  row                its number, from 1 below the header
  anomaly_score      probability of a fault; the list is sorted by it
  verdict            what is suspicious: the label or the measurement
  suggested_label    the most likely other class
  reasons            the reasons in words
  odd_columns        which columns are evidence against the row
  conflicting_rows   trusted rows to compare it with
  prior, label_term, measurement_term
                     terms that add up to the log-odds that the row is correct: frequency of faults,
                     evidence of the predictions, evidence of the measurements

--threshold 0 lists every row. gemmed review shows the rows one by one and writes a corrected table.

Recordings (a manifest with path and label) have a column flags: silent, clipped, truncated.
Recordings with a flag are always listed, and so are files that cannot be read.

With --sensor or --prefix, and with recordings that have the columns subject and sensor, single
sensors of a row may be broken. The columns verdict and sensors name them. --spans writes start and
end of each fault, and --html a timeline.
""",
        {
            "--out FILE": "file for the suspicious rows: .csv, .parquet or .xlsx; - prints CSV",
            "--top=20 [0..]": "rows to print (default: 20)",
            "--threshold P:float [0..1]": "list rows with a fault probability above P (default: "
            "rows for which a wrong label or a bad measurement is more likely than no fault)",
            "--each N:int [1..]": "list the N most suspicious labels and the N most suspicious "
            "measurements; with --threshold, those above it",
            "--id COLUMN ...": "columns that name the rows (identifier, annotator); copied, not "
            "learned from; rows of one patient or machine are kept together by --group",
            "--html FILE": "write a report as one HTML file that loads nothing from elsewhere",
            "--annotators COLUMN": "instead of --target: one column per annotator, empty where "
            "there is no answer; estimates how often each of them is right, and lists unclear rows",
            "--answers": "the same for a table with one answer per row: the columns with the item, "
            "the annotator and the label; other columns are used if they are equal in all rows of "
            "an item",
            "--pred-probs FILE ...": "out-of-sample probabilities of your own models, one file "
            "each: a table with one column per class, or .npy of shape (rows, classes), classes "
            "sorted; rows as in the table",
            "--embeddings FILE": ".npy of shape (rows, dimensions): embeddings of texts, images or "
            "sounds, used beside the columns of the table",
            "--plan FILE": "write a plan of 120 rows to check by hand as JSON, for gemmed review "
            "--plan and gemmed.checks.load_plan; --seed fixes the draws",
            "--strata COLUMN": f"with --plan: {STRATA}",
            **RAW_CELLS,
            "--json": "print everything as JSON",
        },
        annotators={"nargs": "+"},
        answers={"nargs": 3, "metavar": ("ITEM", "ANNOTATOR", "LABEL")},
    )
    add_training(audit)
    add_streaming(audit, cluster=False)
    add_data(audit)


def _add_review(commands: Any) -> None:
    review = add_command(
        commands,
        "review",
        "judge suspicious rows in a browser and correct the table",
        """examples:
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
""",
        {
            "--id COLUMN ...": "columns that name the rows (identifier, annotator); shown, not "
            "learned from",
            "--marks FILE": "file of the marks (default: TABLE.review.sqlite)",
            "--reviewer NAME": "name to be stored with each mark (default: your login name)",
            "--changed=refuse|match": "if the table has changed since the first mark: refuse it "
            "(default), or find the marked rows by their content",
            "--export FILE": "write the corrected table and stop",
            "--bad=drop|flag|keep": "with --export: leave out rows with bad measurements "
            "(default), mark them in the column review, or keep them",
            "--labels=corrected|given": "with --export: write the corrected labels (default), or "
            "the given ones and a column known_label, for gemmed fit --known known_label",
            "--checks N:int": "draw N rows at random, likely faults more often, and estimate the "
            "share of faults from them; --seed fixes the draws; draw before the first mark",
            "--until SHARE:float (0..1)": "goal of the checks: with 95 %% confidence at most "
            "this share of the unchecked labels is wrong (such as 0.02); likely faults are then "
            "shown between the draws, to reach the goal sooner",
            "--until-precision SHARE:float (0..1)": "another goal: with 95 %% confidence at "
            "least this share of the flagged rows is faulty (such as 0.9); only flagged rows are "
            "then drawn",
            "--strata COLUMN": f"with --checks: {STRATA}",
            "--plan FILE": "take the draws that gemmed audit --plan FILE has written",
            "--port=0 [0..65535]": "port of the page (default: a free one)",
            "--no-browser": "print the address and open no browser",
            **RAW_CELLS,
            "--json": "with --export: print the summary as JSON",
        },
    )
    add_training(review)


def _add_monitors(commands: Any) -> None:
    sensors = add_command(
        commands,
        "sensors",
        "report faults of sensors in a table of readings",
        """examples:
  gemmed sensors today.csv --normal lastweek.csv --order time
  gemmed sensors today.csv --normal lastweek.csv --order time --out spans.csv --report today.html
  gemmed sensors today.csv --normal lastweek.csv --sensor pump=px,py,pz --sensor flow=f1
  gemmed sensors today.csv --model plant.gemmed --false-alarms 2/day --json

No labels are needed: --normal is a table of rows during which all sensors worked. Kinds of faults:
stuck, drift, offset, scale (also a changed unit), spikes, noisy, swapped, missing. The sensor plant
stands for whole rows that are unusual. gemmed watch does the same for a stream.
""",
        {
            "TABLE": "CSV or Parquet file, - for standard input",
            "--out FILE": "file for all faults: .csv, .parquet or .json; - prints CSV",
            "--report FILE": "HTML page with a timeline of every sensor",
            "--json": "print all faults as JSON",
            **RAW_CELLS,
        },
    )
    add_monitor(sensors)
    watch = add_command(
        commands,
        "watch",
        "report faults of sensors in a stream of readings",
        """examples:
  gemmed watch today.csv --normal lastweek.csv --order time
  gemmed watch today.csv --normal lastweek.csv --order time --save plant.gemmed
  tail -n +1 -f log.csv | gemmed watch - --model plant.gemmed --state plant.state --json
  gemmed watch readings.jsonl --model plant.gemmed --rows --json

Rows are CSV with a header, or JSON with one object per line. Empty cells and absent keys are
missing readings. A line is printed when a fault begins, when its kind changes, and when it ends.
Kinds: stuck, drift, offset, scale, spikes, noisy, swapped, missing; unusual for the whole plant.

--state keeps everything that is remembered in one file, written after every event and every five
seconds. The same command continues where it stopped, also after a crash. Rows up to the
last time in the state are skipped. Without --order, as many rows of a file are skipped as were
read; a pipe continues with its next row. An event that was printed just before a crash can be
printed again.
""",
        {
            "SOURCE": "CSV or JSON lines; - for standard input",
            "--state FILE": "continue from this file, and keep it up to date",
            "--adapt ROWS:float": "drifts of single sensors that take longer than about this "
            "many rows count as normal",
            "--rows": "also print the scores and alarms of every row",
            "--json": "print JSON lines",
        },
        source={"metavar": "FILE"},
    )
    add_monitor(watch)


def _add_features(commands: Any) -> None:
    add_command(
        commands,
        "features",
        "write MFCC features of recordings",
        """The manifest is a table (CSV, Parquet, Excel) with the columns path, label and perhaps
subject, sensor, start, end (seconds in the file). Paths are relative to its folder. Files are WAV,
FLAC or OGG. They are resampled to one rate and mixed down to one channel. gemmed fit and gemmed
audit take a manifest directly. This command is for several sensors and other tools.

examples:
  gemmed features manifest.csv --out features.parquet --jobs 2
  gemmed features manifest.csv --out features.parquet --components 50 --join
  gemmed features clips.csv --out clips.parquet --segments 1 --window 0.5 --frames 50 --json

Columns: path, label, subject, sensor, segment, start, end, window_start (seconds), the flags
silent, clipped, padded, offset, truncated, then MFCCs (m0000, ...) or components (p00, ...).

A recording that cannot be used is named on standard error with its problem. The others are used.
Exit code: 0 if all could be used, 3 if some could not, 2 if none could or an option is wrong.
Finished recordings are kept in the folder OUT.parts: the same command does only what is missing.
""",
        {
            "MANIFEST": "table of recordings",
            "--out!": "file to write (.parquet or .csv)",
            **JOBS,
            **JSON,
            **RAW_CELLS,
            "--rate:float [1..1e7]": "sample rate in Hz (default: the most common one)",
            "--segments=24": "segments per recording, or 'all' that fit (default: 24)",
            "--segment-seconds:float": "length of a segment (default: so that they cover the "
            "recording)",
            "--overlap=0.75": "share that neighbouring segments have in common (default: 0.75)",
            "--window=1.5": "seconds of the loudest part of a segment that is used (default: 1.5)",
            "--frames=150": "frames per window (default: 150)",
            "--frame-seconds=0.05": "length of a frame in seconds (default: 0.05)",
            "--mfcc=13": "MFCC coefficients per frame (default: 13)",
            "--mels=40": "mel filters (default: 40)",
            "--f-min=0.0": "lowest frequency in Hz (default: 0)",
            "--f-max:float": "highest frequency in Hz (default: rate / 2)",
            "--components:int [1..]": "write this many principal components per sensor instead "
            "of MFCCs",
            "--join": "write one row per subject and segment, with all sensors side by side",
        },
        segments={"type": _count_or_all},
    )


def _count_or_all(text: str) -> int | None:
    return None if text == "all" else int(text)


def _add_experiments(commands: Any) -> None:
    # All targets, family by family; "all" are those of the simulation.
    others = dict.fromkeys(entry.family for entry in TARGETS.values())
    del others[SIMULATION]
    known = [f"{', '.join(names_of(SIMULATION))}, or {ALL}"]
    known += [f"{family}: {', '.join(names_of(family))}" for family in others]
    usual = TARGETS[names_of(SIMULATION)[0]].default_runs
    runs = {name: entry.default_runs for name, entry in TARGETS.items()}
    unusual = ", ".join(f"{name} {n}" for name, n in runs.items() if n != usual)
    add_command(
        commands,
        "reproduce",
        "reproduce figures of the paper on simulated data",
        """examples:
  gemmed reproduce boundary scores --out results
  gemmed reproduce all --quick
  gemmed reproduce noise corruption auc --runs 50 --jobs 2 --json | jq '.[].seconds'
  gemmed reproduce footsteps --quick

Every target writes TARGET.png, TARGET.csv, TARGET.json and TARGET.manifest.json to the folder.
Finished runs are kept in its subfolder runs: after Ctrl-C the same command continues.
""",
        {
            "TARGETS ...": "; ".join(known),
            "--runs:int": f"repetitions (default: {usual}; {unusual})",
            **JOBS,
            "--quick": "few repetitions, to try it out",
            "--out=results": "folder for the files (default: results)",
            **JSON,
        },
        run="experiments:reproduce",
        targets={"metavar": "TARGET"},
    )
    simulate = commands.add_parser(
        "simulate", help="write simulated data", description="Write simulated data with the truth."
    )
    kinds = simulate.add_subparsers(
        title="data", metavar="DATA", required=True, parser_class=type(simulate)
    )
    add_command(
        kinds,
        "ring",
        "two Gaussian classes, anomalies on a ring around them",
        """examples:
  gemmed simulate ring --out ring.csv
  gemmed simulate ring --radius 75 --corruption 0.4 --layout separated --seed 3 --out ring.csv

Columns: x1, x2, y (-1 or 1), anomalous (0 or 1), part (train or test). Test samples are clean.
""",
        {
            "--out!": "file to write",
            "--per-class=100": "training samples per class (default: 100)",
            "--test-per-class=2000": "test samples per class (default: 2000)",
            "--radius=55.0": "radius of the ring (default: 55)",
            "--corruption=0.2": "share of anomalies in the training samples (default: 0.2)",
            "--layout=paper|separated": "means of the classes: as printed in the paper, or apart "
            "from each other",
            **SEED,
            **JSON,
        },
        run="experiments:simulate_ring",
    )
    add_command(
        kinds,
        "footsteps",
        "humans alone or with an animal, recorded by four sensors that fail at times",
        """examples:
  gemmed simulate footsteps --out footsteps
  gemmed simulate footsteps --out few --humans 6 --animals 6 --seed 3 --json
  gemmed features footsteps/manifest.csv --out features.parquet

Writes audio/*.wav (4 kHz, one file for each subject and sensor), manifest.csv (path, label,
subject, sensor), faults.csv (subject, sensor, kind, start, stop) and segments.csv (how much of each
segment is faulty, and whether it counts as an anomaly).
""",
        {
            "--out!": "folder to write",
            "--humans=84": "number of humans alone (default: 84)",
            "--animals=66": "number of humans leading an animal (default: 66)",
            "--duration=13.5": "seconds per recording (default: 13.5)",
            "--healthy": "without faults of sensors",
            **SEED,
            **JSON,
        },
        run="experiments:simulate_footsteps",
    )
    add_command(
        commands,
        "completion",
        "print a script for tab completion",
        """examples:
  eval "$(gemmed completion bash)"                 (in ~/.bashrc)
  gemmed completion zsh > ~/.zfunc/_gemmed         (with ~/.zfunc in fpath, before compinit)
  gemmed completion tcsh > ~/gemmed.csh            (source it in ~/.tcshrc)
  gemmed completion fish > ~/.config/fish/completions/gemmed.fish
""",
        {"SHELL": "bash, zsh, tcsh or fish"},
        run="main:complete",
        shell={"choices": SHELLS, "metavar": None},
    )
