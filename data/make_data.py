"""Make digits.npz, words.txt.gz and their lines of SHA256SUMS from their sources. Nobody needs this to take the course.

Run from the repository's root, in an environment of its own that has scikit-learn; README.md beside this file has
the commands. The sources are checked before anything is written, and nothing is downloaded.
"""

import argparse
import gzip
import hashlib
import io
import re
from pathlib import Path

import numpy as np

WORD_LIST = Path("usr/share/dict/american-english")  # inside the unpacked Debian package
SOURCE_SHA256 = {  # of what scikit-learn 1.9.1 and wamerican 2020.12.07-2 hold
    # the images as bytes, row by row, then the labels as bytes
    "digits": "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826",
    # the word list, as it is
    "words": "9f513f1ceadb6a01c5485b7dbdfd5118dc66cd70b59cae2851292112d4066a32",
}


def expect(name, value):
    """Stop unless the SHA-256 of the bytes `found` is that of the source the course was built from."""
    sha256 = hashlib.sha256(value).hexdigest()
    if sha256 != SOURCE_SHA256[name]:
        raise SystemExit(f"The source of {name} is another one: SHA-256 {sha256}, expected {SOURCE_SHA256[name]}.")


def read_digits():
    """Return scikit-learn's digits: images uint8 (1797, 8, 8) in 0..16, labels uint8 (1797,)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise SystemExit("scikit-learn is not installed in this Python: pip install scikit-learn") from None
    source = load_digits()
    images, labels = source.images.astype(np.uint8), source.target.astype(np.uint8)
    if not np.array_equal(images, source.images):  # float64 there, but whole numbers
        raise SystemExit("The pixels of scikit-learn's digits are not whole numbers in 0..255.")
    expect("digits", images.tobytes() + labels.tobytes())
    return images, labels


def read_words(package):
    """Return the words of the unpacked Debian package in the folder `package` that match [a-z]{2,14}, in its order."""
    path = Path(package) / WORD_LIST
    if not path.is_file():
        raise SystemExit(f"{path} is missing: unpack the package there first, dpkg -x wamerican_2020.12.07-2_all.deb")
    text = path.read_bytes()
    expect("words", text)
    return [word for word in text.decode("utf-8").splitlines() if re.fullmatch("[a-z]{2,14}", word)]


def gzipped(content):
    """Return bytes as gzip, without name and date in its header: the same content gives the same bytes."""
    file = io.BytesIO()
    # GzipFile rather than gzip.compress: the latter's header byte for the system changed with Python 3.13.
    with gzip.GzipFile("", "wb", 9, file, mtime=0) as out:
        out.write(content)
    return file.getvalue()


def write_sums(folder, *names):
    """Put the SHA-256 of the files `names` of a folder into its SHA256SUMS, and print them; other lines stay."""
    path = folder / "SHA256SUMS"
    sums = {line.split()[1]: line for line in path.read_text("ascii").splitlines()} if path.exists() else {}
    for name in names:
        sums[name] = f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}"
        print(sums[name])
    path.write_bytes("".join(f"{line}\n" for line in sums.values()).encode("ascii"))  # the same ends on every system


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", help="folder into which wamerican_2020.12.07-2_all.deb was unpacked")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to (default: data)")
    args = parser.parse_args()
    images, labels = read_digits()
    words = read_words(args.package)

    args.out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(args.out / "digits.npz", images=images, labels=labels)  # it dates its members 1980-01-01
    (args.out / "words.txt.gz").write_bytes(gzipped("".join(f"{word}\n" for word in words).encode("ascii")))
    write_sums(args.out, "digits.npz", "words.txt.gz")


if __name__ == "__main__":
    main()
