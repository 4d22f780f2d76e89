"""Make file_corpus.json and its line of SHA256SUMS: small files of many types, all of our own writing or making.

The texts stand in file_corpus.json itself, line by line; `python data/make_corpus.py FILE...` puts the UTF-8 text FILE
into it under its name, or replaces the one of that name. The binary files are made here, each by its function, with the
standard library, numpy, onnx and Pillow; run without FILE, the script makes them anew and keeps the texts.
"""

import argparse
import base64
import contextlib
import io
import json
import math
import pickle
import py_compile
import sqlite3
import struct
import tarfile
import tempfile
import textwrap
import wave
import zipfile
import zlib
from pathlib import Path

import numpy as np
import onnx.parser
from make_data import gzipped, write_sums
from PIL import Image

HOME = Path(__file__).parent
NAME = "file_corpus.json"
DATE = (2026, 1, 1, 0, 0, 0)  # of every file inside an archive, so that the bytes depend on no clock
SIDE = 24  # pixels of each picture's width and height


def text_of(path):
    """Return the lines of a UTF-8 text file, as JSON holds them."""
    try:
        return path.read_bytes().decode("utf-8").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise SystemExit(f"{path} is not UTF-8 text ({error}). Write a function for it in this script.") from None


def base64_of(content):
    """Return bytes in base64 in pieces of 96 characters, as JSON holds them."""
    return textwrap.wrap(base64.b64encode(content).decode("ascii"), 96)


# ---- pictures and sound ----


def pixels():
    """Return the picture that every format holds: uint8 (SIDE, SIDE), waves around a point, in 16 levels of grey."""
    y, x = np.mgrid[:SIDE, :SIDE]
    return (8 + 7.9 * np.cos(np.hypot(x - 8, y - 15))).astype(np.uint8) * 17  # (SIDE, SIDE), 0, 17 .. 255


def png():
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels())  # 0: no filter
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)  # 8 bits, grey
    end = chunk(b"tEXt", b"Title\0Waves") + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + end


def gif():
    """Return a GIF without compression: codes of 8 bits for 7-bit colours, and a clear before the codes would grow."""
    table = b"".join(bytes([2 * i] * 3) for i in range(128))
    values = (pixels() // 2).tobytes()
    codes = b"".join(b"\x80" + values[i : i + 100] for i in range(0, len(values), 100)) + b"\x81"  # clear, .., end
    blocks = b"".join(bytes([len(codes[i : i + 255])]) + codes[i : i + 255] for i in range(0, len(codes), 255))
    screen = struct.pack("<HHBBB", SIDE, SIDE, 0xF6, 0, 0)  # a table of 128 colours
    frame = b"," + struct.pack("<HHHHB", 0, 0, SIDE, SIDE, 0) + b"\x07"
    return b"GIF89a" + screen + table + frame + blocks + b"\0;"


def bmp():
    file = io.BytesIO()
    Image.fromarray(pixels()).convert("RGB").save(file, "BMP", dpi=(72, 72))
    return file.getvalue()


def wav():
    """Return an eighth of a second of a tone of 440 Hz that fades, mono, 8 bits, 8,000 values a second."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 1, 8000, 0, "NONE", "not compressed"))
        tone = (128 + 100 * math.exp(-n / 500) * math.sin(2 * math.pi * 440 * n / 8000) for n in range(1000))
        sound.writeframes(bytes(round(value) for value in tone))
    return file.getvalue()


def midi():
    """Return a scale up and down, one quarter a note."""
    scale = [60, 62, 64, 65, 67, 69, 71, 72]
    notes = b"".join(bytes([0, 0x90, note, 80, 96, 0x80, note, 0]) for note in scale + scale[::-1])
    track = b"\0\xff\x03\x05Scale" + b"\0\xff\x51\x03\x07\xa1\x20" + b"\0\xc0\x00" + notes + b"\0\xff\x2f\0"
    return b"MThd" + struct.pack(">IHHH", 6, 0, 1, 96) + b"MTrk" + struct.pack(">I", len(track)) + track


# ---- archives: of texts of the corpus ----


def zipped(files):
    """Return a zip archive of {name: bytes}."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, DATE)
            info.create_system = 3  # Unix, whatever made it
            out.writestr(info, content, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def tar(files):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as out:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.uname, info.gname = len(content), 1767225600, "reader", "reader"
            out.addfile(info, io.BytesIO(content))
            end = out.offset + 1024  # two empty blocks; Python adds more, up to 10,240 bytes
    return archive.getvalue()[:end]


# ---- data and programs ----


def database():
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("PRAGMA page_size = 512")
        db.execute("CREATE TABLE reading (station TEXT, hour INTEGER, celsius REAL)")
        rows = [(("harbour", "hill")[n % 2], n // 2, round(3 + 2 * math.sin(n), 1)) for n in range(30)]
        db.executemany("INSERT INTO reading VALUES (?, ?, ?)", rows)
        db.commit()
        return db.serialize()


def npy():
    file = io.BytesIO()
    np.save(file, np.round(np.sin(np.arange(96).reshape(8, 12)), 3).astype(np.float32))  # (8, 12)
    return file.getvalue()


GRAPH = """
<ir_version: 8, opset_import: ["": 15], producer_name: "make_corpus">
layer_norm (float[B, 8] x) => (float[B, 8] y) <float eps = {1e-5}> {
    mean = ReduceMean <axes = [-1]> (x)
    centered = Sub (x, mean)
    square = Mul (centered, centered)
    var = ReduceMean <axes = [-1]> (square)
    shifted = Add (var, eps)
    std = Sqrt (shifted)
    y = Div (centered, std)
}
"""


def graph():
    """Return LayerNorm without gain and bias as an ONNX graph in single operations, in two passes."""
    model = onnx.parser.parse_model(GRAPH)
    for node in model.graph.node:
        node.ClearField("domain")  # empty: the usual one
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def bytecode(source):
    """Return what this Python writes beside a module that it imports, without a date."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "layer_norm.py")
        path.write_bytes(source)
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(path, folder + "/pyc", path.name, doraise=True, optimize=0, invalidation_mode=mode)
        return Path(folder, "pyc").read_bytes()


def wasm():
    """Return a WebAssembly module with two exported functions: mean(a, b) and centered(a, b) = a - mean(a, b)."""
    return bytes.fromhex(
        "00 61 73 6d  01 00 00 00"  # \0asm, version 1
        "01 07  01 60 02 7d 7d 01 7d"  # one type: (f32, f32) -> f32
        "03 03  02 00 00"  # two functions of this type
        "05 03  01 00 01"  # a memory of a page
        "07 1c  03 04 6d 65 61 6e 00 00"  # three exports: mean, function 0
        "08 63 65 6e 74 65 72 65 64 00 01"  # centered, function 1
        "06 6d 65 6d 6f 72 79 02 00"  # memory, memory 0
        "0a 1b  02 0d 00 20 00 20 01 92 43 00 00 00 3f 94 0b"  # two bodies: a + b, times 0.5
        "0b 00 20 00 20 00 20 01 10 00 93 0b"  # a - call 0 (a, b)
    )


def pdf():
    lines = ["Layer Normalization", "The mean takes one direction away,", "the variance takes the length away."]
    text = "BT /F1 14 Tf 18 TL 72 700 Td " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R\n"
        "   /Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, starts = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        starts.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{start:010d} 00000 n \n" for start in starts)
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return (out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + table + end).encode("ascii")


def noise(n, seed=15):
    """Return n bytes of ANSI C's linear congruential generator, of each step the eight highest of its 31 bits."""
    letters = bytearray()
    for _ in range(n):
        seed = (1103515245 * seed + 12345) % 2**31
        letters.append(seed >> 23)
    return bytes(letters)


def binaries(texts):
    """Return {name: bytes} of all files that are made; texts: {name: bytes}, those that are written."""
    weights = {"weight": [round(1 + 0.1 * math.sin(n), 4) for n in range(32)], "bias": [0.0] * 32, "eps": 1e-5}
    return {
        "waves.png": png(),
        "waves.gif": gif(),
        "waves.bmp": bmp(),
        "tone.wav": wav(),
        "scale.mid": midi(),
        "letters.zip": zipped({name: texts[name] for name in ("letter_en.txt", "brief_de.txt")}),
        "letter.tar": tar({"letter_en.txt": texts["letter_en.txt"]}),
        "letter.gz": gzipped(texts["letter_en.txt"]),
        "readings.sqlite": database(),
        "sines.npy": npy(),
        "weights.pkl": pickle.dumps(weights, protocol=4),
        "layer_norm.onnx": graph(),
        "layer_norm.pyc": bytecode(texts["layer_norm.py"]),
        "mean.wasm": wasm(),
        "page.pdf": pdf(),
        "noise.bin": noise(1500),
        "zeros.bin": bytes(1500),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="a text to put into the corpus")
    parser.add_argument("--out", type=Path, default=HOME, help="folder to write to (default: data)")
    args = parser.parse_args()

    old = json.loads((HOME / NAME).read_text("utf-8"))
    lines = {name: file["text"] for name, file in old.items() if "text" in file}
    lines |= {file.name: text_of(file) for file in args.files}
    compiled = binaries({name: "".join(text).encode("utf-8") for name, text in lines.items()})
    corpus = {name: {"text": text} for name, text in lines.items()}
    corpus |= {name: {"base64": base64_of(content)} for name, content in compiled.items()}
    text = json.dumps(corpus, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    (args.out / NAME).write_bytes(text.encode("utf-8"))  # bytes: the same line ends on every system
    write_sums(args.out, NAME)


if __name__ == "__main__":
    main()
