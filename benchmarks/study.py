"""Studies on data that gemmed does not bring; files as those of gemmed reproduce.

python benchmarks/study.py sensors --data DIR       # SensIT vehicles, SKAB, spoken digits
python benchmarks/study.py recordings --data DIR    # spoken digits, heart sounds
python benchmarks/study.py robustness --data DIR    # 24 tables, 13 faults, 12 methods

Every study writes NAME.png, NAME.csv, NAME.json and NAME.manifest.json to the folder --out.
Finished runs are kept in its subfolder runs: the same command goes on where it was stopped.
"""

import argparse
import sys

import gemmed
from gemmed._core.exceptions import GemmedError
from gemmed.experiments.reproduce import make_targets
from studies import Options
from studies.recordings.target import recordings_target
from studies.robustness.table_names import GROUPS
from studies.robustness.targets import default_target
from studies.sensors.target import sensors_target

STUDIES = {
    "recordings": (recordings_target, 10, 2),
    "sensors": (sensors_target, 10, 1),
    "robustness": (default_target, 5, 1),
}
"""The function that makes a study, its repetitions, and those that are enough to try it out."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--data", help="folder with the tables or recordings")
    parser.add_argument("--tables", help=f"tables or lists of them ({', '.join(GROUPS)})")
    parser.add_argument("--runs", type=int, help="repetitions")
    parser.add_argument("--quick", action="store_true", help="few repetitions and tables")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", default="results")
    options = parser.parse_args(arguments)
    make, default_runs, quick_runs = STUDIES[options.study]
    n_runs = options.runs or (quick_runs if options.quick else default_runs)
    try:
        target = make(Options(options.data, options.tables, options.quick))
        (summary,) = make_targets(
            {options.study: (target, n_runs)},
            options.out,
            jobs=options.jobs,
            version=gemmed.__version__,
            progress=lambda name, done, total: print(f"{name}: {done} of {total}", flush=True),
        )
    except GemmedError as error:
        sys.exit(f"{parser.prog}: {error}")
    print(f"{summary['seconds']:.1f} s, in {summary['out']}: {', '.join(summary['files'])}")


if __name__ == "__main__":
    main()
