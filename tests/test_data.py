"""The data sets of the course: what a learner reads when a file is missing or damaged.

What the files hold is fixed by their sums, and seen in every lesson that reads them.
"""

import hashlib
import shutil

import pytest
import torch

from lessonkit import data

FILES = {  # what loads them
    "digits.npz": data.digits,
    "words.txt.gz": data.words,
    "magika/model.onnx": data.magika_model,
    "magika/labels.txt": data.magika_labels,
    "file_corpus.json": data.file_corpus,
}
SOURCE_FOLDER = data.FOLDER


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the data files that a test may damage; lessonkit.data reads it instead of the real ones."""
    monkeypatch.setattr(data, "FOLDER", tmp_path / "data")
    return shutil.copytree(SOURCE_FOLDER, tmp_path / "data", ignore=shutil.ignore_patterns("runs"))


def test_settings_are_chosen_without_a_test_digit():
    split = data.digits_split(3)
    chosen = split.validating()
    assert [len(part) for part in chosen] == [997, 997, 300, 300]
    assert torch.equal(torch.cat([chosen.x_train, chosen.x_test]), split.x_train)
    assert torch.equal(torch.cat([chosen.y_train, chosen.y_test]), split.y_train)


def test_an_edit_in_place_harms_no_later_call():
    state, split = torch.get_rng_state(), data.digits_split()
    before = [part.clone() for part in split]
    for part in (split.x_train, split.y_train):
        part.fill_(7)
    assert torch.equal(split.x_test, before[2])
    torch.testing.assert_close([*data.digits_split()], before, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state), "the split must leave the global generator alone"
    data.words().clear()
    assert data.words()


@pytest.mark.parametrize("name", FILES)
def test_a_missing_and_a_damaged_file_are_named_with_the_way_out(folder, name):
    path, good = folder / name, (folder / name).read_bytes()
    bad = good[:-1] + bytes([good[-1] ^ 1])
    damaged = f"is damaged: {len(bad)} bytes with SHA-256 {hashlib.sha256(bad).hexdigest()}"
    ways = [
        (lambda: path.write_bytes(bad), [damaged, hashlib.sha256(good).hexdigest()], " data/SHA256SUMS"),
        (path.unlink, ["is missing"], ""),
        (path.mkdir, ["cannot be read"], ""),
    ]
    for harm, words, also in ways:
        harm()
        with pytest.raises(data.DataFileError) as caught:
            FILES[name]()
        assert all(part in str(caught.value) for part in [str(path), *words])
        assert str(caught.value).endswith(f"run in {folder.parent}: git checkout -- data/{name}{also}")
        assert caught.value.__cause__ is caught.value.__context__ is None, "a second traceback would show"
