"""Rows of tables and matrices: in memory, in files, on a Dask cluster.

``Blocks`` is the one way to pass over rows; ``LocalBlocks`` has them in this process. On Dask,
``dask_blocks`` and ``parquet_blocks`` give blocks that live on the workers. The arithmetic is the
same and sums are taken in the order of the blocks, so the result does not depend on the workers.
What is kept is made by tasks, never only stored: when a worker dies, Dask runs the tasks again
whose results it held. ``lazily`` predicts without computing.
"""

from .blocks import Blocks, LocalBlocks
from .dask_blocks import DaskBlocks, dask_blocks, gather_labels, lazily, parquet_blocks
from .sources import read_blocks, read_parquet

__all__ = [
    "Blocks",
    "DaskBlocks",
    "LocalBlocks",
    "dask_blocks",
    "gather_labels",
    "lazily",
    "parquet_blocks",
    "read_blocks",
    "read_parquet",
]
