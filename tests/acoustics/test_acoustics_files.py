"""Recordings, manifests and tables on disk, good and bad."""

import os
import sys

import numpy as np
import pytest

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("pyarrow")
librosa = pytest.importorskip("librosa")

from gemmed._core.exceptions import AudioFileError, ManifestError  # noqa: E402
from gemmed.acoustics import (  # noqa: E402
    FeatureTable,
    ManifestEntry,
    SegmentPCA,
    join_sensors,
    read_audio,
    read_manifest,
    read_table,
    recording_features,
    reduce_table,
    resample,
    segment_features,
    write_audio,
    write_manifest,
    write_table,
)
from gemmed.acoustics.audio import clipped_samples  # noqa: E402

RATE = 8000


def tone(seconds=2.0, rate=RATE, frequency=440.0, level=0.5):
    return level * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_what_is_written_is_read(tmp_path, suffix):
    path = tmp_path / f"tone.{suffix}"
    write_audio(path, tone(), RATE)
    audio = read_audio(path)
    np.testing.assert_allclose(audio.signal, tone(), atol=2**-15)
    assert (audio.sample_rate, audio.channels, audio.truncated) == (RATE, 1, False)
    assert audio.clipped.size == 0


def test_ogg_is_read(tmp_path):
    write_audio(tmp_path / "tone.ogg", tone(), RATE)
    audio = read_audio(tmp_path / "tone.ogg")
    assert not audio.truncated
    np.testing.assert_allclose(audio.signal[1000:-1000], tone()[1000:-1000], atol=0.05)


def test_excerpt(tmp_path):
    write_audio(tmp_path / "a.wav", tone(), RATE, subtype="DOUBLE")
    part = read_audio(tmp_path / "a.wav", start=0.5, end=1.25).signal
    np.testing.assert_array_equal(part, tone()[4000:10_000])
    assert len(read_audio(tmp_path / "a.wav", start=1.5, end=99).signal) == 4000


def test_192_khz_stereo_becomes_8_khz_mono(tmp_path):
    left, right = tone(rate=192_000), tone(rate=192_000, frequency=1000)
    high = tone(rate=192_000, frequency=30_000)  # must not come back as an alias
    write_audio(
        tmp_path / "a.wav", np.stack([left + high, right], axis=1), 192_000, subtype="FLOAT"
    )
    audio = read_audio(tmp_path / "a.wav", rate=RATE)
    assert (audio.file_rate, audio.channels, audio.sample_rate) == (192_000, 2, RATE)
    expected = (tone() + tone(frequency=1000)) / 2
    np.testing.assert_allclose(audio.signal[400:-400], expected[400:-400], atol=1e-3)


@pytest.mark.parametrize(("old", "new"), [(44_100, 8000), (2000, 8000), (8000, 7919)])
def test_resampling_keeps_a_tone(old, new):
    found = resample(tone(rate=old), old, new)
    assert abs(len(found) - 2 * new) <= 1
    inner = slice(new // 10, -new // 10)
    np.testing.assert_allclose(found[inner], tone(rate=new)[: len(found)][inner], atol=1e-3)


def write_float(path, samples):
    soundfile.write(path, np.asarray(samples), RATE, subtype="DOUBLE", format="WAV")


def missing(path):
    pass


def empty(path):
    path.write_bytes(b"")


def truncated_header(path):
    write_audio(path, tone(), RATE)
    path.write_bytes(path.read_bytes()[:30])


def text(path):
    path.write_text("path,label\n" * 50)


def folder(path):
    path.mkdir()


def no_samples(path):
    soundfile.write(path, np.empty(0), RATE)


def not_finite(path):
    write_float(path, [0.1, np.nan, 0.2, np.inf])


def absurd(path):
    write_float(path, [0.1, 1e200])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (missing, "no such file"),
        (empty, "empty"),
        (truncated_header, "not a readable"),
        (text, "not a readable"),
        (folder, "not a regular file"),
        (no_samples, "no samples"),
        (not_finite, "2 of 4 samples are NaN or infinite"),
        (absurd, "1e\\+200"),
    ],
)
def test_bad_files_are_named_by_their_problem(tmp_path, make, words):
    make(tmp_path / "bad.wav")
    with pytest.raises(AudioFileError, match=words):
        read_audio(tmp_path / "bad.wav")


def test_half_a_flac_file_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    write_audio(tmp_path / "a.flac", 0.1 * rng.standard_normal(5 * RATE), RATE)
    whole = (tmp_path / "a.flac").read_bytes()
    (tmp_path / "a.flac").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(AudioFileError, match="damaged"):
        read_audio(tmp_path / "a.flac")


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg"])
def test_random_damage_never_ends_in_another_error(tmp_path, suffix):
    """Headers and contents overwritten at random, lengths and rates among them."""
    rng = np.random.default_rng(0)
    path = tmp_path / f"a.{suffix}"
    write_audio(path, 0.1 * rng.standard_normal(2 * RATE), RATE)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    used = 0
    for trial in range(150):
        damaged = whole.copy()
        places = rng.integers(len(whole) if trial % 3 == 0 else 60, size=3)
        damaged[places] = rng.integers(256, size=3)
        path.write_bytes(damaged.tobytes())
        try:
            found = recording_features(path, rate=2000, n_segments=2)
        except AudioFileError:
            continue
        used += 1
        assert np.isfinite(found.features.mfcc).all()
    assert used < 150


@pytest.mark.parametrize("suffix", ["wav", "ogg"])
def test_truncated_files_are_used_and_flagged(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    write_audio(path, tone(20), RATE)
    whole = path.read_bytes()
    path.write_bytes(whole[: 2 * len(whole) // 3])
    audio = read_audio(path)
    assert audio.truncated
    assert 10 * RATE < len(audio.signal) < 15 * RATE
    assert recording_features(path).truncated.all()


def test_the_format_is_found_from_the_content(tmp_path):
    write_audio(tmp_path / "a.flac", tone(), RATE)
    os.rename(tmp_path / "a.flac", tmp_path / "a.wav")
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav").signal, tone(), atol=2**-15)


def test_an_excerpt_behind_the_end_is_a_problem(tmp_path):
    write_audio(tmp_path / "a.wav", tone(), RATE)
    with pytest.raises(AudioFileError, match="lasts 2 s"):
        read_audio(tmp_path / "a.wav", start=3.0)


def test_clipping_is_seen_and_a_smooth_maximum_is_not():
    loud = np.clip(tone(level=1.3), -1, 1)
    assert len(clipped_samples(loud)) > 1000
    assert len(clipped_samples(np.clip(loud, -2, 0.5))) > 0  # one side only, below full scale
    for frequency in (5.0, 50.0, 440.0, 1000.0, 2000.0):
        rounded = np.round(tone(frequency=frequency, level=0.999) * 32767) / 32768
        assert clipped_samples(rounded).size == 0
    assert clipped_samples(np.zeros(100)).size == 0
    assert clipped_samples(np.full(100, 0.5)).size == 0


def test_flags_say_which_segments(tmp_path):
    """20 s: tone, from 5 s on silence, from 15 s on a clipped tone."""
    signal = np.concatenate([tone(5), np.zeros(10 * RATE), np.clip(tone(5, level=3), -1, 1)])
    write_audio(tmp_path / "a.wav", signal, RATE)
    found = recording_features(tmp_path / "a.wav")
    begin, end = found.features.starts, found.features.ends
    np.testing.assert_array_equal(found.silent, (begin > 5.01) & (end < 15))
    np.testing.assert_array_equal(found.clipped, end > 15)
    assert not found.padded.any() and not found.offset.any() and not found.truncated.any()


def test_an_offset_is_flagged_and_removed(tmp_path):
    rng = np.random.default_rng(0)
    signal = 0.1 * rng.standard_normal(20 * RATE)
    write_audio(tmp_path / "plain.wav", signal, RATE, subtype="DOUBLE")
    write_audio(tmp_path / "offset.wav", signal + 0.3, RATE, subtype="DOUBLE")
    plain, offset = (recording_features(tmp_path / f"{n}.wav") for n in ("plain", "offset"))
    assert offset.offset.all() and not plain.offset.any()
    np.testing.assert_allclose(offset.features.mfcc, plain.features.mfcc, atol=1e-6)


@pytest.mark.parametrize("n_samples", [1, 5, 700])
def test_short_files_are_padded(tmp_path, n_samples):
    write_audio(tmp_path / "a.wav", tone()[1 : 1 + n_samples], RATE)
    found = recording_features(tmp_path / "a.wav", rate=2000)
    assert found.padded.all() and np.isfinite(found.features.mfcc).all()


def test_an_excerpt_has_the_features_of_its_signal_and_the_times_of_its_file(tmp_path):
    signal = 0.1 * np.random.default_rng(0).standard_normal(20 * RATE)
    write_audio(tmp_path / "a.wav", signal, RATE, subtype="DOUBLE")
    found = recording_features(tmp_path / "a.wav", start=5, end=18).features
    alone = segment_features(signal[5 * RATE : 18 * RATE], RATE)
    np.testing.assert_array_equal(found.mfcc, alone.mfcc)
    np.testing.assert_allclose(found.window_starts, alone.window_starts + 5)
    np.testing.assert_allclose([found.starts[0], found.ends[-1]], [5, 18])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # librosa.load imports aifc
def test_reading_by_librosa_gives_the_same_features(tmp_path):
    """Resampling included; librosa computes in single precision."""
    signal = 0.1 * np.random.default_rng(0).standard_normal((20 * 44_100, 2))
    write_audio(tmp_path / "a.flac", signal, 44_100)
    ours = recording_features(tmp_path / "a.flac", rate=16_000).features
    theirs = segment_features(librosa.load(tmp_path / "a.flac", sr=16_000)[0], 16_000)
    np.testing.assert_allclose(ours.window_starts, theirs.window_starts)
    np.testing.assert_allclose(ours.mfcc, theirs.mfcc, atol=1e-2)


ENTRIES = [
    ManifestEntry("a.wav", "0", "007", "1"),
    ManifestEntry("with, comma/ü.flac", "1", "s2", "left", 0.5, 2.25),
]


@pytest.mark.parametrize("name", ["m.csv", "m.parquet"])
def test_manifests_are_read_as_written(tmp_path, name):
    write_manifest(tmp_path / name, ENTRIES)
    assert read_manifest(tmp_path / name) == ENTRIES
    assert ENTRIES[0].located(tmp_path) == tmp_path / "a.wav"


def test_a_manifest_needs_paths_and_labels_only(tmp_path):
    (tmp_path / "m.csv").write_text("path,label\na.wav,0\nb.wav,1\n")
    assert read_manifest(tmp_path / "m.csv") == [
        ManifestEntry("a.wav", "0", "a.wav", "1"),
        ManifestEntry("b.wav", "1", "b.wav", "1"),
    ]


def test_manifests_of_pandas(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ENTRIES).assign(note="x", sensor=[1, 2])
    frame.to_csv(tmp_path / "m.csv", index=False, encoding="utf-8-sig")
    frame.to_parquet(tmp_path / "m.parquet")
    for name in ("m.csv", "m.parquet"):
        first, second = read_manifest(tmp_path / name)
        assert first == ENTRIES[0] and second == ENTRIES[1]._replace(sensor="2")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("m.csv", "path,subject\na,c\n", "no column 'label'"),
        ("m.csv", "path,label,subject,sensor\n", "a header but no rows"),
        ("m.csv", "", "is empty"),
        ("m.csv", "path,label,subject,sensor\na,b,,d\n", "no subject in row 1"),
        ("m.csv", "path,label,subject,sensor,start\na,b,c,d,x\n", "row 1: start='x' is no number"),
        ("m.csv", "path,label,subject,sensor,start,end\na,b,c,d,3,2\n", "start=3.0, end=2.0"),
        ("m.csv", "path,label,subject,sensor,start\na,b,c,d,inf\n", "start='inf' is no number"),
        ("m.parquet", "PAR1,label,subject,sensor\na,b,c,d\n", "damaged Parquet file"),
        ("m.csv", None, "cannot read"),
        ("m.parquet", None, "cannot read"),
    ],
)
def test_wrong_manifests(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ManifestError, match=words):
        read_manifest(tmp_path / name)


def test_a_binary_file_is_no_manifest(tmp_path):
    write_audio(tmp_path / "m.wav", tone(), RATE)
    with pytest.raises(ManifestError):
        read_manifest(tmp_path / "m.wav")


def small_table():
    """Two subjects, two segments, sensors 10 and 2; the numbers tell where they belong."""
    rows = [(u, s, k) for u in ("ann", "bob") for s in ("10", "2") for k in (0, 1)]
    facts = {
        "label": np.array([{"ann": "0", "bob": "1"}[u] for u, _, _ in rows], object),
        "subject": np.array([u for u, _, _ in rows], object),
        "sensor": np.array([s for _, s, _ in rows], object),
        "segment": np.array([k for _, _, k in rows]),
        "silent": np.array([(u, s, k) == ("bob", "2", 1) for u, s, k in rows]),
    }
    features = np.array([[int(s) + k / 10, ord(u[0])] for u, s, k in rows])
    return FeatureTable(facts, features, ["m0000", "m0001"])


def test_sensors_are_joined_on_subject_and_segment():
    joined = join_sensors(small_table())
    assert joined.names == ["2_m0000", "2_m0001", "10_m0000", "10_m0001"]
    np.testing.assert_array_equal(
        joined.features,
        [
            [2.0, 97, 10.0, 97],
            [2.1, 97, 10.1, 97],
            [2.0, 98, 10.0, 98],
            [2.1, 98, 10.1, 98],
        ],
    )
    assert joined.facts["label"].tolist() == ["0", "0", "1", "1"]
    assert joined.facts["silent"].tolist() == [False, False, False, True]


def without_row(table, row):
    keep = np.arange(len(table)) != row
    facts = {name: values[keep] for name, values in table.facts.items()}
    return FeatureTable(facts, table.features[keep], table.names)


def test_segments_without_all_sensors_are_left_out():
    joined = join_sensors(without_row(small_table(), 0))
    assert len(joined) == 3 and joined.facts["segment"].tolist() == [1, 0, 1]


def test_sensors_that_do_not_fit_together():
    table = small_table()
    table.facts["sensor"][:] = "1"
    with pytest.raises(ManifestError, match="two recordings"):
        join_sensors(table)
    table = small_table()
    table.facts["label"][0] = "9"
    with pytest.raises(ManifestError, match="different labels"):
        join_sensors(table)


def test_components_are_found_for_each_sensor():
    table = small_table()
    reduced, kept = reduce_table(table, 2)
    assert [k.sensor for k in kept] == ["2", "10"]
    rows = table.facts["sensor"] == "2"
    expected = SegmentPCA(2).fit_transform(table.features[rows])
    np.testing.assert_array_equal(reduced.features[rows], expected)
    with pytest.raises(ManifestError, match="3 components"):
        reduce_table(table, 3)


def test_tables_are_read_as_written(tmp_path):
    table = small_table()
    write_table(tmp_path / "t.parquet", table)
    again = read_table(tmp_path / "t.parquet")
    np.testing.assert_array_equal(again.features, table.features)
    assert again.names == table.names
    for name, values in table.facts.items():
        assert again.facts[name].tolist() == values.tolist()


@pytest.mark.parametrize("package", ["soundfile", "soxr", "pyarrow"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path, monkeypatch, package
):
    write_audio(tmp_path / "a.wav", tone(), RATE)
    needs_it = {
        "soundfile": lambda: read_audio(tmp_path / "a.wav"),
        "soxr": lambda: read_audio(tmp_path / "a.wav", rate=4000),
        "pyarrow": lambda: write_table(tmp_path / "t.parquet", small_table()),
    }[package]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf'{package}.*pip install "gemmed\[audio\]"'):
        needs_it()
