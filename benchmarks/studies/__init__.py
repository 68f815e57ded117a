"""Studies on data that gemmed does not bring: tables, recordings and sensors with faults."""

from pathlib import Path
from typing import NamedTuple


class Options(NamedTuple):
    """What the user says of the data; a factory of targets takes of it what it needs."""

    data: str | Path | None = None
    """Folder with tables or recordings."""
    tables: str | None = None
    """Names of tables or of lists of tables, separated by commas."""
    quick: bool = False
    """Few tables, to try it out."""
