"""gemmed features: from a manifest to a table, with bad files, resumed, in parallel."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from gemmed.cli import main

pytest.importorskip("soundfile")
pytest.importorskip("pyarrow")

from gemmed.acoustics import (
    ManifestEntry,
    SegmentPCA,
    read_table,
    segment_features,
    write_audio,
    write_manifest,
)

RATE = 4000


def signal_of(seed, seconds=12):
    return 0.1 * np.random.default_rng(seed).standard_normal(seconds * RATE)


@pytest.fixture
def manifest(tmp_path):
    """Three subjects, two sensors, in a folder of their own."""
    (tmp_path / "sounds").mkdir()
    entries = []
    for subject in range(3):
        for sensor in (1, 2):
            name = f"sounds/{subject}_{sensor}.wav"
            write_audio(tmp_path / name, signal_of(10 * subject + sensor), RATE, subtype="DOUBLE")
            entries.append(ManifestEntry(name, str(subject % 2), f"s{subject}", str(sensor)))
    write_manifest(tmp_path / "manifest.csv", entries)
    return tmp_path / "manifest.csv"


def features(manifest, *arguments, out="features.parquet", jobs=1):
    """Exit code, path of the table."""
    path = manifest.parent / out
    return main(
        ["features", str(manifest), "--out", str(path), "--jobs", str(jobs), *arguments]
    ), path


def add_entries(manifest, *entries):
    with manifest.open("a") as file:
        file.writelines(",".join(entry) + "\n" for entry in entries)


def test_the_table_holds_the_features_of_every_segment(manifest, capsys):
    code, path = features(manifest, "--json")
    assert code == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows"], summary["columns"], summary["computed"]) == (6 * 24, 1950, 6)
    assert (summary["rate"], summary["failed"], summary["problems"]) == (RATE, 0, [])
    table = read_table(path)
    assert list(table.facts) == [
        *("path", "label", "subject", "sensor", "segment", "start", "end", "window_start"),
        *("silent", "clipped", "padded", "offset", "truncated"),
    ]
    rows = (table.facts["subject"] == "s2") & (table.facts["sensor"] == "1")
    expected = segment_features(signal_of(21), RATE)
    np.testing.assert_array_equal(table.features[rows], expected.mfcc)
    np.testing.assert_array_equal(table.facts["window_start"][rows], expected.window_starts)
    assert table.facts["segment"][rows].tolist() == list(range(24))
    assert set(table.facts["label"][rows]) == {"0"}


def test_components_of_sensors_side_by_side(manifest, capsys):
    code, path = features(manifest, "--components", "5", "--join", "--json")
    assert code == 0
    kept = json.loads(capsys.readouterr().out)["components"]
    assert [k["sensor"] for k in kept] == ["1", "2"]
    assert all(0 < k["variance_kept"] <= k["power_kept"] < 1 for k in kept)
    table = read_table(path)
    assert len(table) == 3 * 24
    assert table.names == [f"{s}_p{i:02d}" for s in (1, 2) for i in range(5)]
    mfccs = np.vstack([segment_features(signal_of(10 * i + 2), RATE).mfcc for i in range(3)])
    np.testing.assert_allclose(
        np.abs(table.features[:, 5:]), np.abs(SegmentPCA(5).fit_transform(mfccs)), atol=1e-8
    )


def test_settings_reach_the_features(manifest):
    arguments = "--segments all --segment-seconds 2 --overlap 0.5 --window 1 --frames 20"
    arguments += " --frame-seconds 0.1 --mfcc 4 --mels 12 --f-min 100 --f-max 900 --rate 2000"
    code, path = features(manifest, *arguments.split(), out="features.csv")
    assert code == 0
    header, first, *_ = path.read_text().splitlines()
    assert header.count(",") == 12 + 80 and header.endswith('"m0079"')
    from gemmed.acoustics import resample

    expected = segment_features(
        resample(signal_of(1), RATE, 2000),
        2000,
        n_segments=None,
        segment=2,
        overlap=0.5,
        window=1,
        n_windows=20,
        frame=0.1,
        n_mfcc=4,
        n_mels=12,
        f_min=100,
        f_max=900,
    )
    numbers = [float(text) for text in first.split(",")[13:]]
    np.testing.assert_allclose(numbers, expected.mfcc[0], rtol=1e-12)
    assert len(path.read_text().splitlines()) == 1 + 6 * len(expected.mfcc)


def computed(manifest, capsys, *arguments):
    capsys.readouterr()
    code, _ = features(manifest, "--json", *arguments)
    assert code == 0
    return json.loads(capsys.readouterr().out)["computed"]


def test_only_what_is_missing_is_done(manifest, capsys):
    assert computed(manifest, capsys) == 6
    first = (manifest.parent / "features.parquet").read_bytes()
    assert computed(manifest, capsys) == 0
    assert (manifest.parent / "features.parquet").read_bytes() == first
    assert computed(manifest, capsys, "--components", "3") == 0
    assert computed(manifest, capsys, "--mfcc", "12") == 6
    assert computed(manifest, capsys) == 0
    write_audio(manifest.parent / "sounds/0_1.wav", signal_of(99), RATE, subtype="DOUBLE")
    assert computed(manifest, capsys) == 1
    table = read_table(manifest.parent / "features.parquet")
    np.testing.assert_array_equal(table.features[:24], segment_features(signal_of(99), RATE).mfcc)
    assert computed(manifest, capsys, "--mfcc", "12") == 1
    next((manifest.parent / "features.parquet.parts").glob("*/*")).unlink()
    assert computed(manifest, capsys, "--mfcc", "12") + computed(manifest, capsys) == 1


def test_the_table_does_not_depend_on_the_processes(manifest):
    _, one = features(manifest, out="one.parquet")
    _, two = features(manifest, out="two.parquet", jobs=2)
    assert one.read_bytes() == two.read_bytes()


BAD = ["missing", "empty", "header", "text", "nan", "half_flac", "excerpt"]
ODD = ["one_sample", "stereo_192_khz", "silence", "truncated", "renamed"]


def write_bad_and_odd_files(folder):
    rng = np.random.default_rng(0)
    (folder / "empty.wav").write_bytes(b"")
    write_audio(folder / "header.wav", signal_of(0), RATE)
    (folder / "header.wav").write_bytes((folder / "header.wav").read_bytes()[:20])
    (folder / "text.wav").write_text("this is no sound\n" * 100)
    write_audio(folder / "nan.wav", np.array([0.1, np.nan]), RATE, subtype="FLOAT")
    write_audio(folder / "half.flac", signal_of(0), RATE)
    half = (folder / "half.flac").read_bytes()
    (folder / "half_flac.wav").write_bytes(half[: len(half) // 2])
    write_audio(folder / "excerpt.wav", signal_of(0), RATE)
    write_audio(folder / "one_sample.wav", np.array([0.5]), RATE)
    write_audio(folder / "stereo_192_khz.wav", rng.uniform(-0.5, 0.5, (192_000, 2)), 192_000)
    write_audio(folder / "silence.wav", np.zeros(12 * RATE), RATE)
    write_audio(folder / "truncated.wav", signal_of(0), RATE)
    (folder / "truncated.wav").write_bytes((folder / "truncated.wav").read_bytes()[:-999])
    write_audio(folder / "as.flac", signal_of(0), RATE)
    os.rename(folder / "as.flac", folder / "renamed.wav")
    entries = [ManifestEntry(f"{n}.wav", "0", n, "1") for n in [*BAD, *ODD]]
    entries[BAD.index("excerpt")] = entries[BAD.index("excerpt")]._replace(start=99.0)
    return entries


@pytest.mark.parametrize("jobs", [1, 2])
def test_bad_files_are_reported_and_the_rest_is_done(tmp_path, capsys, jobs):
    entries = write_bad_and_odd_files(tmp_path)
    write_audio(tmp_path / "good.wav", signal_of(0), RATE, subtype="DOUBLE")
    write_manifest(tmp_path / "m.csv", [*entries, ManifestEntry("good.wav", "1", "good", "1")])
    code, path = features(tmp_path / "m.csv", "--json", jobs=jobs)
    captured = capsys.readouterr()
    assert code == 3
    lines = captured.err.strip().splitlines()
    assert [line.split(": ")[1] for line in lines] == [f"{name}.wav" for name in BAD]
    summary = json.loads(captured.out)
    assert [p["path"] for p in summary["problems"]] == [f"{name}.wav" for name in BAD]
    problems = {p["path"][:-4]: p["problem"] for p in summary["problems"]}
    assert problems["missing"] == "no such file"
    assert "NaN" in problems["nan"] and "damaged" in problems["half_flac"]
    table = read_table(path)
    subject, facts = table.facts["subject"], table.facts
    assert list(dict.fromkeys(subject)) == [*ODD, "good"]
    assert np.isfinite(table.features).all()
    assert set(subject[facts["silent"]]) == {"silence", "one_sample"}
    assert set(subject[facts["truncated"]]) == {"truncated"}
    assert {"one_sample", "stereo_192_khz"} <= set(subject[facts["padded"]])
    np.testing.assert_array_equal(
        table.features[subject == "good"], segment_features(signal_of(0), RATE).mfcc
    )


def test_a_mended_file_is_done_next_time(manifest, capsys):
    add_entries(manifest, ("late.wav", "0", "s9", "1", "", ""))
    assert features(manifest)[0] == 3
    assert "late.wav: no such file" in capsys.readouterr().err
    write_audio(manifest.parent / "late.wav", signal_of(5), RATE)
    assert computed(manifest, capsys) == 1


def test_no_usable_file_is_exit_code_two(tmp_path, capsys):
    write_manifest(tmp_path / "m.csv", [ManifestEntry("no.wav", "0", "s", "1")])
    code, path = features(tmp_path / "m.csv")
    lines = capsys.readouterr().err.strip().splitlines()
    assert code == 2 and not path.exists()
    assert lines == [
        "gemmed: no.wav: no such file",
        "gemmed: error: none of the recordings could be used",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--jobs", "0"], ["--jobs: 0 must be at least 1"]),
        (["--components", "0"], ["--components: 0 must be at least 1"]),
        (["--components", "999"], ["999 components", "fewer"]),
        (["--overlap", "1"], ["overlap=1"]),
        (["--segments", "0"], ["n_segments=0"]),
        (["--segments", "few"], ["--segments", "few"]),
        (["--segments", "all"], ["n_segments=None"]),
        (["--mfcc", "50"], ["n_mfcc=50"]),
        (["--rate", "-5"], ["--rate: -5 must be between 1 and 1e7"]),
        (["--rate", "50"], ["sample_rate=50", "n_windows"]),
        (["--f-max", "1", "--f-min", "2"], ["f_min=2"]),
        (["--f-max", "3000"], ["f_max=3000", "half the sample rate"]),
        (["--out", "x.txt"], [".parquet or .csv"]),
        (["--out", "/dev/null/x.csv"], ["/dev/null/x.csv"]),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_two(manifest, capsys, arguments, words):
    try:
        code, _ = features(manifest, *arguments)
    except SystemExit as stop:
        code = stop.code
    lines = capsys.readouterr().err.strip().splitlines()
    assert code == 2 and len(lines) == 1 and lines[0].startswith("gemmed: error: "), lines
    for word in words:
        assert word in lines[0]


def test_an_unusable_manifest_is_one_line_and_exit_code_two(tmp_path, capsys):
    (tmp_path / "m.csv").write_text("file,label\na,b\n")
    code, _ = features(tmp_path / "m.csv")
    error = capsys.readouterr().err
    assert code == 2 and error.count("\n") == 1 and "no column 'path'" in error


def test_the_manifest_is_not_overwritten(manifest, capsys):
    before = manifest.read_bytes()
    assert main(["features", str(manifest), "--out", str(manifest)]) == 2
    assert "manifest itself" in capsys.readouterr().err
    assert manifest.read_bytes() == before


def test_help_has_examples_and_exit_codes():
    shown = subprocess.run(
        [sys.executable, "-m", "gemmed", "features", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "examples:" in shown and "Exit code" in shown


def cut(content):
    return content[: len(content) // 2]


def other_line(text):
    def change(content):
        return text + content[content.index(b"\n") :]

    return change


DAMAGES = {
    "empty": lambda content: b"",
    "cut off": cut,
    "one line": lambda content: content.replace(b"\n", b" "),
    "a bit": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "numbers": lambda content: content[:-5] + b"\0\1\2\3\4",
    "in the middle": lambda content: content[:2000] + b"\0\1\2\3\4" + content[2005:],
    "longer": lambda content: content + b"x",
    "no sum": other_line(b""),
    "another sum": other_line(b"0" * 64),
    "bytes": other_line(b"\xff\xfe\0"),
    "old": lambda content: b'{"made_from": {}}\n' + content,
}


def test_damaged_parts_are_made_again(manifest, capsys):
    """Some kinds stopped every later run, without a name; two ended in a traceback."""
    small = ("--mfcc", "3", "--frames", "20")
    code, path = features(manifest, *small)
    expected = read_table(path).features
    part = sorted(path.parent.glob("features.parquet.parts/*/*"))[2]
    whole = part.read_bytes()
    for name, damage in DAMAGES.items():
        part.write_bytes(damage(whole))
        capsys.readouterr()
        code, _ = features(manifest, "--json", *small)
        assert (code, json.loads(capsys.readouterr().out)["computed"]) == (0, 1), name
        assert np.array_equal(read_table(path).features, expected), name
        assert part.read_bytes() == whole, name


def test_labels_that_are_formulas_are_text_in_csv(manifest, capsys):
    manifest.write_text(manifest.read_text().replace(",s1,", ",=cmd|x,"))
    code, path = features(manifest, out="f.csv")
    assert code == 0
    assert "'=cmd|x" in path.read_text() and '"=cmd' not in path.read_text()
    assert "cells begin like a formula" in capsys.readouterr().err
    assert features(manifest, "--raw-cells", out="f.csv")[0] == 0
    assert '"=cmd|x"' in path.read_text()


HOSTILE = {
    "start": ManifestEntry("good.wav", "0", "start", "1", start=1e308),
    "nul": ManifestEntry("go\0od.wav", "0", "nul", "1"),
    "long": ManifestEntry("x" * 5000 + ".wav", "0", "long", "1"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_impossible_entry_does_not_end_the_command(name, tmp_path, capsys):
    write_audio(tmp_path / "good.wav", signal_of(0), RATE, subtype="DOUBLE")
    whole = ManifestEntry("good.wav", "1", "good", "1", end=1e308)
    write_manifest(tmp_path / "m.parquet", [HOSTILE[name], whole])
    code, path = features(tmp_path / "m.parquet", "--json")
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert code == 3
    assert problem["path"] == HOSTILE[name].path
    assert set(read_table(path).facts["subject"]) == {"good"}


def test_times_that_are_nan_are_missing(tmp_path):
    write_audio(tmp_path / "good.wav", signal_of(0), RATE, subtype="DOUBLE")
    nan = float("nan")
    write_manifest(tmp_path / "m.parquet", [ManifestEntry("good.wav", "0", "a", "1", nan, nan)])
    code, path = features(tmp_path / "m.parquet")
    assert code == 0
    np.testing.assert_array_equal(
        read_table(path).features, segment_features(signal_of(0), RATE).mfcc
    )
