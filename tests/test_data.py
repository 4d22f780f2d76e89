"""The data sets of the course: what a learner reads when a file is missing or damaged, and the scripts that make them.

What the files hold is fixed by their sums, and seen in every lesson that reads them.
"""

import hashlib
import json
import shutil

import pytest
import torch

from lessonkit import data
from tests.helpers import python

FILES = {  # what loads them, and what it calls them
    "digits.npz": (data.digits, "1,797 images"),
    "words.txt.gz": (data.words, "63,240 words"),
    "magika/model.onnx": (data.magika_model, "Magika's network"),
    "magika/labels.txt": (data.magika_labels, "214 labels"),
    "file_corpus.json": (data.file_corpus, "the small"),
}
SOURCE_FOLDER = data.FOLDER


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the data files that a test may damage; lessonkit.data reads it instead of the real ones."""
    copy = tmp_path / "data"
    for name in (*FILES, "SHA256SUMS"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE_FOLDER / name, copy / name)
    monkeypatch.setattr(data, "FOLDER", copy)
    return copy


def message(load):
    """Return the text of the DataFileError that `load` must raise; nothing else may show below it."""
    with pytest.raises(data.DataFileError) as caught:
        load()
    assert caught.value.__cause__ is None and caught.value.__context__ is None, "a second traceback would show"
    return str(caught.value)


def test_an_edit_in_place_harms_no_later_call_and_no_other_part():
    state, split = torch.get_rng_state(), data.digits_split()
    before = [part.clone() for part in split]
    split.x_train.fill_(7)
    assert torch.equal(split.x_test, before[2])
    assert all(torch.equal(a, b) for a, b in zip(data.digits_split(), before, strict=True))
    assert torch.equal(torch.get_rng_state(), state), "the split must leave the global generator alone"
    assert not torch.equal(data.digits_split(3).y_test, before[3])
    for load in (data.words, data.magika_labels, data.file_corpus):
        length = len(load())
        load().clear()
        assert len(load()) == length


# ---- missing and damaged files ----


@pytest.mark.parametrize("name", FILES)
def test_a_missing_and_a_damaged_file_are_named_with_the_way_out(folder, name):
    load, called = FILES[name]
    path, way_out = folder / name, f"run in {folder.parent}: git checkout -- data/{name}"
    good = path.read_bytes()
    bad = good[:-1] + bytes([good[-1] ^ 1])
    path.write_bytes(bad)
    text = message(load)
    assert f"{path} is damaged: {len(bad)} bytes" in text and text.endswith(f"{way_out} data/SHA256SUMS")
    assert hashlib.sha256(bad).hexdigest() in text and hashlib.sha256(good).hexdigest() in text
    path.unlink()
    text = message(load)
    assert f"{path} is missing; expected {called}" in text and text.endswith(way_out)
    path.mkdir()
    assert f"{path} cannot be read" in message(load)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda sums: None, "SHA256SUMS is missing"),
        (lambda sums: sums.replace(b"digits", b"letters"), "SHA-256 none in SHA256SUMS"),
        (lambda sums: b"\xff\xfe\x00", "SHA-256 none in SHA256SUMS"),
    ],
)
def test_sums_that_do_not_say_what_a_file_must_be(change, words, folder):
    path = folder / "SHA256SUMS"
    changed = change(path.read_bytes())
    path.unlink() if changed is None else path.write_bytes(changed)
    text = message(data.digits_split)
    assert words in text and "git checkout -- " in text and text.endswith("data/SHA256SUMS")


def test_sums_with_windows_line_ends(folder):
    sums = (folder / "SHA256SUMS").read_bytes()
    (folder / "SHA256SUMS").write_bytes(sums.replace(b"\n", b"\r\n"))
    assert len(data.words()) == 63_240


# ---- the folder itself ----


def test_readme_sums_and_files_agree():
    sums = dict(reversed(line.split()) for line in (SOURCE_FOLDER / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == set(FILES)
    rows = [line for line in (SOURCE_FOLDER / "README.md").read_text(encoding="utf-8").splitlines() if "|" in line]
    for name in FILES:
        content = (SOURCE_FOLDER / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == sums[name]
        [row] = [row for row in rows if f"`{name}`" in row]
        assert f"`{sums[name]}`" in row and f"{len(content):,} bytes" in row


def test_folder_is_small_and_holds_the_notice():
    assert sum((SOURCE_FOLDER / name).stat().st_size for name in FILES) < 3_500_000
    notice = (SOURCE_FOLDER / "LICENSE-SCOWL.txt").read_text(encoding="utf-8")
    assert "Copyright 2000-2011 by Kevin Atkinson" in notice and "Permission to use, copy, modify" in notice
    licence = (SOURCE_FOLDER / "magika/LICENSE").read_bytes()  # the text as Debian ships it
    assert hashlib.sha256(licence).hexdigest() == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    notice = (SOURCE_FOLDER / "magika/NOTICE").read_text(encoding="utf-8")
    assert all(part in notice for part in ("Copyright 2024 Google LLC", "magika 1.0.3", "model.onnx   unchanged"))


# ---- the script that made the files ----


VERSIONED = {"layer_norm.pyc", "waves.png", "letter.gz", "letters.zip", "readings.sqlite", "layer_norm.onnx"}


def test_the_corpus_made_again_is_the_one_shipped(tmp_path):
    old = json.loads((SOURCE_FOLDER / "file_corpus.json").read_text("utf-8"))
    texts = []
    for _ in range(2):
        output = python(SOURCE_FOLDER / "make_corpus.py", "--out", tmp_path)
        texts.append((tmp_path / "file_corpus.json").read_bytes())
    assert texts[0] == texts[1]
    new = json.loads(texts[0])
    assert new.keys() == old.keys() and {name for name in new if new[name] != old[name]} <= VERSIONED
    assert sum("base64" in file for file in new.values()) == 17
    sums = (tmp_path / "SHA256SUMS").read_text()
    assert output == sums == f"{hashlib.sha256(texts[0]).hexdigest()}  file_corpus.json\n"
