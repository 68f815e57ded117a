"""Recordings to segments, MFCCs and tables of features.

Arrays need nothing beyond scikit-learn; files need the extra ``audio``.
"""

from .audio import Audio, audio_rate, read_audio, resample, write_audio
from .feature_table import FeatureTable, read_table, write_table
from .features import (
    FeatureSettings,
    SegmentFeatures,
    cut_segments,
    segment_features,
    window_features,
)
from .manifest import ManifestEntry, read_manifest, write_manifest
from .mfcc import mfcc
from .segments import SegmentBounds, cut_windows, segment_bounds, strongest_starts
from .several_sensors import Reduction, join_sensors, reduce_table
from .sound_files import (
    ReadSegments,
    RecordingFeatures,
    RecordingMFCC,
    SoundFile,
    recording_features,
)
from .transformers import AcousticFeatures, MFCCTransformer, SegmentPCA, StrongestWindow

__all__ = [
    "AcousticFeatures",
    "Audio",
    "FeatureSettings",
    "FeatureTable",
    "MFCCTransformer",
    "ManifestEntry",
    "ReadSegments",
    "RecordingFeatures",
    "RecordingMFCC",
    "Reduction",
    "SegmentBounds",
    "SegmentFeatures",
    "SegmentPCA",
    "SoundFile",
    "StrongestWindow",
    "audio_rate",
    "cut_segments",
    "cut_windows",
    "join_sensors",
    "mfcc",
    "read_audio",
    "read_manifest",
    "read_table",
    "recording_features",
    "reduce_table",
    "resample",
    "segment_bounds",
    "segment_features",
    "strongest_starts",
    "window_features",
    "write_audio",
    "write_manifest",
    "write_table",
]
