"""Targets: what reads a kind of file, honest files to begin with, and which results are allowed.

A reader may return or raise one of its errors, with a message of one line. Everything else is
wrong: another exception, a crash, more memory or time than the limits of the process.
"""

import io
import json
import zipfile
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

from gemmed._core.exceptions import AudioFileError, ManifestError, ModelFileError, TableError

from .hostile_models import HOSTILE, SCHEMA, parts_of, write_model
from .mutations import mutant, mutant_tree

CORPUS = Path(__file__).parent / "corpus"


class Target(ABC):
    """A kind of file; ``case`` gives the content of the next file."""

    errors: tuple = ()
    suffix = ""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.seeds = [*self.honest(), *self.found()]

    @abstractmethod
    def honest(self):
        """Contents of files that are as they should be."""

    def found(self):
        """Cases that once went wrong."""
        name = type(self).__name__.lower()
        return [path.read_bytes() for path in sorted(CORPUS.glob(f"{name}/*"))]

    def case(self, number, rng):
        return self.seeds[number] if number < len(self.seeds) else mutant(self.seeds, rng)

    @abstractmethod
    def attack(self, path):
        """Read the file at this path."""


class Csv(Target):
    errors = (TableError,)
    suffix = ".csv"

    def honest(self):
        return [
            b"a,b,y\n1,2,x\n3,4,z\n",
            b'a;b;y\n1,5;"2;0";x\n;?;z\n',
            "größe\tname\n1\tÄ\n2\t漢\n".encode(),
            "a,b\n1,2\n".encode("utf-16"),
            b"\xef\xbb\xbfa|b\r\n1|2\r\n",
            b'a,b\n"x\ny",1\n,2\n',
        ]

    def attack(self, path):
        from gemmed.rows.tables import csv_text, open_batches, read_table

        try:
            table = read_table(path)
            for name in table.columns:
                table.present(name)
                table.numbers(name)
                table.labels(name)
            csv_text(table.frame)
        finally:
            for batch in open_batches(path).batches():
                len(batch)


class Parquet(Csv):
    suffix = ".parquet"

    def honest(self):
        import pandas as pd

        frame = pd.DataFrame(
            {"a": [1.5, None, 3.0], "b": ["x", None, "z"], "c": [1, 2, 3], "d": [True, False, None]}
        )
        made = []
        for compression in (None, "snappy", "gzip"):
            file = io.BytesIO()
            frame.to_parquet(file, compression=compression)
            made.append(file.getvalue())
        return made


class Sound(Target):
    errors = (AudioFileError,)

    def honest(self):
        import soundfile

        signal = 0.3 * np.sin(np.arange(400) / 7.0)
        made = []
        for kind, subtype in (
            ("WAV", "PCM_16"), ("WAV", "DOUBLE"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"),
            ("AIFF", "PCM_16"), ("W64", "PCM_24"), ("AU", "ULAW"), ("CAF", "PCM_16"),
        ):  # fmt: skip
            file = io.BytesIO()
            soundfile.write(file, signal, 8000, format=kind, subtype=subtype)
            made.append(file.getvalue())
        return made

    def attack(self, path):
        from gemmed.acoustics import read_audio

        audio = read_audio(path)
        assert np.all(np.isfinite(audio.signal))


class Model(Target):
    """Bytes of model files, among them the hostile ones."""

    errors = (ModelFileError,)

    def honest(self):
        from gemmed import GEMMEDClassifier, MEDClassifier, save_model

        X = np.random.default_rng(0).normal(size=(24, 2))
        y = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)]
        made = []
        for model in (MEDClassifier(), GEMMEDClassifier(gamma=0.5, random_state=0)):
            path = self.folder / "honest"
            save_model(model.fit(X, y), path)
            made.append(path.read_bytes())
        self.header, self.payload = parts_of(path)
        return made

    def attack(self, path):
        from gemmed import load_model

        load_model(path)


class Schema(Model):
    """Model files whose check sum fits and whose tree of objects was changed."""

    def case(self, number, rng):
        if number < len(HOSTILE):
            return self._file(HOSTILE[number](self.payload))
        result = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self.payload)) as old, zipfile.ZipFile(result, "w") as new:
            for name in old.namelist():
                content = old.read(name)
                if name == SCHEMA:
                    content = json.dumps(mutant_tree(json.loads(content), rng)).encode()
                elif rng.random() < 0.1:
                    content = mutant([content], rng)
                new.writestr(name, content)
        return self._file(result.getvalue())

    def _file(self, payload):
        path = self.folder / "made"
        write_model(path, self.header, payload)
        return path.read_bytes()


class Manifest(Target):
    errors = (ManifestError,)

    def honest(self):
        from gemmed.acoustics import ManifestEntry, write_manifest

        entries = [ManifestEntry(f"{i}.wav", "x", f"s{i}", "1", 0.5, 2.0) for i in range(3)]
        made = []
        for name in ("m.csv", "m.parquet"):
            write_manifest(self.folder / name, entries)
            made.append((self.folder / name).read_bytes())
        return [*made, b"path,label,subject,sensor\na,b,c,d\n"]

    def attack(self, path):
        from gemmed.acoustics import read_manifest

        wrong = None
        for name in (path, path.with_suffix(".parquet")):
            if name != path:
                name.write_bytes(path.read_bytes())
            try:
                read_manifest(name)
            except ManifestError as error:
                wrong = error
        if wrong is not None:
            raise wrong


class Part(Target):
    """Part files of ``gemmed features``: whatever is in them, they are used or made again."""

    errors = (FileExistsError,)

    def honest(self):
        from gemmed.acoustics import write_audio
        from gemmed.acoustics.feature_table import compute_part, part_arguments
        from gemmed.acoustics.features import FeatureSettings
        from gemmed.acoustics.manifest import ManifestEntry

        sound = self.folder / "sound.wav"
        write_audio(sound, 0.1 * np.random.default_rng(0).standard_normal(8000), 4000)
        settings = FeatureSettings(
            n_segments=2, overlap=0.5, segment=None, window=0.2, n_windows=2, frame=0.05,
            n_mfcc=2, n_mels=4, f_min=0.0, f_max=None,
        )  # fmt: skip
        entry = ManifestEntry(str(sound), "x", "s", "1")
        self.arguments = part_arguments(entry, sound, rate=4000.0, settings=settings.as_dict())
        part = self.folder / "parts" / "honest"
        self.result = compute_part(arguments=self.arguments, version="1", part=str(part))
        assert "problem" not in self.result
        return [part.read_bytes()]

    def attack(self, path):
        from gemmed.acoustics.feature_table import facts_of_part, read_part

        found = read_part(path, self.arguments, "1")  # never an exception
        if found is None:
            raise FileExistsError("it is made again")
        assert len(found["start"]) == len(found["silent"]) == len(found["mfcc"])
        assert facts_of_part(found) == self.result


TARGETS = {
    kind.__name__.lower(): kind for kind in (Csv, Parquet, Sound, Model, Schema, Manifest, Part)
}
