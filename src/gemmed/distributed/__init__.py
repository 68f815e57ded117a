"""Passes over blocks of rows on a Dask cluster.

``dask_blocks`` and ``parquet_blocks`` give blocks that live on the workers, for everything that
takes ``gemmed.blocks.Blocks``: landmarks, reference sets and ``BlockFeatureSpace``. The arithmetic
is that of ``LocalBlocks``; sums are taken in the order of the blocks, so the result does not depend
on the workers. What is kept is made by tasks, never only stored: when a worker dies, Dask runs the
tasks again whose results it held. ``lazily`` predicts without computing.
"""

from __future__ import annotations

from .dask_blocks import DaskBlocks, dask_blocks, gather_labels, parquet_blocks
from .prediction import lazily

__all__ = ["DaskBlocks", "dask_blocks", "gather_labels", "lazily", "parquet_blocks"]
