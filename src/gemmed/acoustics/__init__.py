"""Recordings to segments, MFCCs and tables of features.

Arrays need nothing beyond scikit-learn; files need the extra ``audio``.
"""

from .audio import Audio, audio_rate, read_audio, resample, write_audio
from .feature_table import (
    FeatureTable,
    Reduction,
    join_sensors,
    read_table,
    reduce_table,
    write_table,
)
from .features import (
    FeatureSettings,
    SegmentFeatures,
    cut_segments,
    segment_features,
    window_features,
)
from .manifest import ManifestEntry, read_manifest, write_manifest
from .mfcc import mfcc
from .recordings import RecordingFeatures, recording_features
from .segments import SegmentBounds, cut_windows, segment_bounds, strongest_starts
from .sound_files import ReadSegments, RecordingMFCC, SoundFile
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
