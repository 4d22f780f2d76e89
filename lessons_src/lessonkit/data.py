"""The course's data: digits, words, small files of many types, and a network that others trained (Magika).

Sources and licences: data/README.md. Each call reads its file again (about 0.02 s) and compares it with
data/SHA256SUMS, so that a damaged download shows here and not as a strange loss.
"""

import base64
import gzip
import hashlib
import io
import json
from typing import NamedTuple

import numpy as np
import torch

from lessonkit import _threads, places  # noqa: F401  _threads sets how many torch uses
from lessonkit.shown import Told

FOLDER, SUMS = places.data(), places.SUMS
N_TEST = 500


class DataFileError(Told, RuntimeError):
    """A file of data/ is missing or is not the one the course was written with. The message says how to restore it."""


class DigitsSplit(NamedTuple):
    """Standardised digits for training and testing, as `digits_split` returns them."""

    x_train: torch.Tensor  # (1297, 8, 8) float32, in train standard deviations
    y_train: torch.Tensor  # (1297,) int64
    x_test: torch.Tensor  # (500, 8, 8) float32, in train standard deviations
    y_test: torch.Tensor  # (500,) int64

    def validating(self, count=300):
        """Return a DigitsSplit in whose test part stand the last `count` training digits, and no test digit.

        Settings are chosen on it, so that the test digits are looked at once, when nothing is left to choose.
        """
        x, y = self.x_train, self.y_train
        return DigitsSplit(x[:-count], y[:-count], x[-count:], y[-count:])


def _restore(*names):
    """Return the sentence that says how to get the files `names` back."""
    if places.INSTALLED:
        return f"To restore, install the course again: pip install --force-reinstall --no-deps {places.PACKAGE}"
    files = " ".join(f"{FOLDER.name}/{name}" for name in names)
    return f"To restore, run in {FOLDER.parent}: git checkout -- {files}"


def _read(name):
    """Return the bytes of the file `name` in data/, or raise DataFileError naming it."""
    path = FOLDER / name
    try:
        return path.read_bytes()
    except FileNotFoundError:
        problem = "is missing"
    except OSError as error:
        problem = f"cannot be read ({type(error).__name__})"
    raise DataFileError(f"{path} {problem}. {_restore(name)}")


def _verified(name):
    """Return the bytes of the file `name` in data/ once their SHA-256 is the one in data/SHA256SUMS."""
    content = _read(name)
    lines = _read(SUMS).decode("ascii", errors="replace").splitlines()
    expected = next((line.split()[0] for line in lines if line.split()[1:] == [name]), f"none in {SUMS}")
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected:
        # Either file may be the damaged one, so both are restored.
        raise DataFileError(
            f"{FOLDER / name} is damaged: {len(content)} bytes with SHA-256 {digest}; expected is "
            f"{expected}. {_restore(name, SUMS)}"
        )
    return content


def digits():
    """Return the 1,797 handwritten digits as (images, labels).

    images: float32 (1797, 8, 8), whole numbers 0..16: how many of the 4x4 pixels behind each pixel carry ink.
    labels: int64 (1797,), 0..9.
    Source: E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits, UCI (CC BY 4.0); its test set,
    as scikit-learn bundles it.
    Raises DataFileError if data/digits.npz is missing or damaged.
    """
    content = _verified("digits.npz")
    with np.load(io.BytesIO(content)) as arrays:
        images, labels = torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"])
    return images.float(), labels.long()  # (1797, 8, 8), (1797,)


def digits_split(split=0):
    """Return a DigitsSplit (x_train, y_train, x_test, y_test): 1,297 digits to train on, 500 to test on.

    split: a whole number. The order is torch.randperm(1797) with generator seed 1000 + split; the last 500 are the
    test set.
    Both parts are standardised with the mean and the standard deviation (divisor n - 1) of all train pixels together.
    So x_train (1297, 8, 8) has mean 0 and standard deviation 1, and x_test (500, 8, 8) only nearly.
    Raises DataFileError if data/digits.npz is missing or damaged.
    """
    images, labels = digits()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1000 + split))  # (1797,)
    train, test = order[:-N_TEST], order[-N_TEST:]  # (1297,), (500,)
    pixels = images[train].double()  # float64: the two numbers do not depend on the order of summation
    mean, std = pixels.mean().item(), pixels.std().item()
    x = (images - mean) / std  # (1797, 8, 8)
    return DigitsSplit(x[train], labels[train], x[test], labels[test])


def words():
    """Return 63,240 English words as a new list of str: two to fourteen letters a to z, each once, in sorted order.

    Source: SCOWL's American word list, from Debian's wamerican 2020.12.07-2 (data/LICENSE-SCOWL.txt).
    Raises DataFileError if data/words.txt.gz is missing or damaged.
    """
    content = _verified("words.txt.gz")
    return gzip.decompress(content).decode("ascii").split()


def magika_model():
    """Return Magika's network as bytes: an ONNX graph with its weights, for onnx.load_from_string and onnxruntime.

    Its input is int32 (B, 2048), a file's first and last 1,024 bytes; its output is float32 (B, 214), a score for each
    of `magika_labels()`.
    Source: Google, package magika 1.0.3, models/standard_v3_3/model.onnx, unchanged (Apache-2.0, data/magika/NOTICE).
    Raises DataFileError if data/magika/model.onnx is missing or damaged.
    """
    return _verified("magika/model.onnx")


def magika_labels():
    """Return the 214 labels that Magika's network tells apart, as a new list of str in the order of its outputs.

    Source: package magika 1.0.3, config.min.json, target_labels_space (Apache-2.0, data/magika/NOTICE).
    Raises DataFileError if data/magika/labels.txt is missing or damaged.
    """
    return _verified("magika/labels.txt").decode("ascii").split()


def file_corpus():
    """Return small files of many types as a new dict {name: bytes}, sorted by name; the suffix tells the type.

    Texts in programming and data formats and in four natural languages, pictures, sound, archives, data, programs,
    noise: of our own writing and making (data/make_corpus.py).
    Raises DataFileError if data/file_corpus.json is missing or damaged.
    """
    files = json.loads(_verified("file_corpus.json"))
    return {
        name: "".join(file["text"]).encode("utf-8") if "text" in file else base64.b64decode("".join(file["base64"]))
        for name, file in files.items()
    }
