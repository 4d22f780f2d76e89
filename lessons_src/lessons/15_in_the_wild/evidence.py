"""What lesson 15 says of more files than its 48: small, short and damaged ones, made here."""

import functools
import gzip
import io
import json
import random
import struct
import wave
import zipfile
import zlib

import torch
from torch import nn
from torch.nn import functional as F

from fromscratch.in_the_wild import file_bytes, load_typer, magika_scores
from lessonkit import data
from lessonkit.evidence import record

BATCH = 5  # files at once: little memory


def texts(r, words):
    """Return a text of each of many formats, about made-up things."""
    word = lambda: r.choice(words)
    line = lambda n=9: " ".join(word() for _ in range(n))
    rows = [
        (word(), r.randint(1, 999), round(r.uniform(0, 9), 2)) for _ in range(r.randint(2, 30))
    ]
    table = lambda mark: "\n".join(mark.join(map(str, row)) for row in [("a", "b", "c"), *rows])
    each = lambda form: "\n".join(form.format(*row) for row in rows)
    objects = [{word(): number, word(): [value, name]} for name, number, value in rows]
    return {
        "txt": "\n".join(line() for _ in rows),
        "csv": table(","),
        "tsv": table("\t"),
        "json": json.dumps(objects, indent=r.choice([None, 2])),
        "html": "<!DOCTYPE html>\n<html><body>\n"
        + each('<p class="{0}">{1} {2}</p>')
        + "\n</body></html>",
        "svg": '<svg xmlns="http://www.w3.org/2000/svg">\n'
        + each('<circle id="{0}" cx="{1}" r="{2}"/>')
        + "\n</svg>",
        "xml": '<?xml version="1.0"?>\n<list>\n'
        + each("<item name='{0}'>{1}</item>")
        + "\n</list>",
        "python": "import math\n\n"
        + each("def {0}(x, n={1}):\n    return math.sin(x * n) + {2}\n"),
        "javascript": each(
            "function {0}(x) {{ return x.map(y => y * {1}).filter(y => y > {2}); }}"
        ),
        "c": "#include <stdio.h>\n" + each("static int {0}(int x) {{ return x * {1}; }}"),
        "css": each(".{0} {{ width: {1}px; margin: {2}em; }}"),
        "markdown": f"# {line(3)}\n\n{line()}\n\n"
        + each("- **{0}**: {1}, [{2}](http://x.org)"),
        "diff": "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n" + each(" {0}\n-{1}\n+{2}"),
        "yaml": each("{0}:\n  count: {1}\n  share: {2}"),
        "ini": each("[{0}]\ncount = {1}\nshare = {2}\n"),
        "sql": each("INSERT INTO items (name, count, share) VALUES ('{0}', {1}, {2});"),
        "shell": "#!/bin/sh\n" + each('if [ -f {0} ]; then echo "{1}" >> {0}; fi'),
        "latex": "\\documentclass{article}\n\\begin{document}\n"
        + each("\\section{{{0}}} ${1} < {2}$")
        + "\n\\end{document}",
    }


def binaries(r, text):
    """Return a file of each of some binary formats."""
    chunk = lambda kind, body: (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    )
    side, archive, sound = r.randint(4, 40), io.BytesIO(), io.BytesIO()
    pixels = b"".join(b"\0" + r.randbytes(side) for _ in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr(zipfile.ZipInfo("note.txt"), text)
    with wave.open(sound, "wb") as out:
        out.setparams((1, 1, 8000, 0, "NONE", ""))
        out.writeframes(bytes(128 + (i * side) % 90 for i in range(50 * side)))
    screen = struct.pack("<HHBBB", side, side, 0x80, 0, 0) + bytes(6)
    pdf = f"%PDF-1.4\n1 0 obj\n<< /Length {len(text)} >>\nstream\n".encode() + zlib.compress(
        text
    )
    elf = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQ", 2, 62, 1, 0x401000, 64, 0)
    return {
        "png": b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(pixels))
        + chunk(b"IEND", b""),
        "gif": b"GIF89a" + screen + b"," + bytes(8) + b"\x07" + r.randbytes(20 * side) + b"\0;",
        "bmp": b"BM" + struct.pack("<IIIIiiHH", 54 + side, 0, 54, 40, side, 1, 1, 24) + pixels,
        "zip": archive.getvalue(),
        "gzip": gzip.compress(text, mtime=0),
        "pdf": pdf + b"\nendstream\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF\n",
        "wav": sound.getvalue(),
        "elf": elf + r.randbytes(30 * side) + bytes(8 * side),
    }


@functools.cache
def files(seed):
    """Return 26 files as (26, 2048): a third whole, a third short, a third damaged."""
    r = random.Random(seed)
    made = texts(r, data.words())
    made = {name: text.encode() for name, text in made.items()}
    made |= binaries(r, made["txt"])
    for at, (name, content) in enumerate(made.items()):
        harm, start = (at + seed) % 3, r.randrange(8, max(9, len(content) // 2))
        if harm == 1:  # cut short
            made[name] = content[: max(8, min(len(content), r.randint(12, 70)))]
        elif harm == 2:  # the beginning is lost
            made[name] = content[start:] + bytes(max(0, 8 - len(content[start:])))
    return torch.stack([file_bytes(content) for content in made.values()])  # (26, 2048)


@functools.cache
def original(seed):
    """Return the scores of the original, for the files of a seed."""
    return torch.cat([magika_scores(some) for some in files(seed).split(BATCH)])  # (26, 214)


def ln(x, eps=1e-6):
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def centered(x):
    return x - x.mean(-1, keepdim=True)


def rms(x):
    """No mean is taken away."""
    return F.rms_norm(x, x.shape[-1:], eps=1e-6)


def size(x):
    return (x.var(-1, correction=0, keepdim=True) + 1e-6).sqrt()


# What stands in the place of norm 1, (B, C, P), and of norm 2, (B, C), before gain and bias.
FIRST = {
    "unbiased": lambda x: centered(x) * (x.var(-1, keepdim=True) + 1e-6).rsqrt(),
    "eps 1e-5": lambda x: ln(x, 1e-5),
    "eps 1e-3": lambda x: ln(x, 1e-3),
    "eps 0.1": lambda x: ln(x, 0.1),
    "features": lambda x: ln(x.mT).mT,
    "rms 1": rms,
    "centered 1": centered,
    "times 30": lambda x: 30 * centered(x),
    "both frozen": lambda x: centered(x) / usual()[0],
}
SECOND = {name: FIRST[name] for name in ("unbiased", "eps 1e-5", "eps 1e-3", "eps 0.1")} | {
    "rms 2": rms,
    "centered 2": centered,
    "norm 2 frozen": lambda x: centered(x) / usual()[1],
    "both frozen": lambda x: centered(x) / usual()[2],
    "10 times colder": lambda x: 10 * ln(x),
    "10 times hotter": lambda x: ln(x) / 10,
}
RULES = ["as shipped", *dict.fromkeys([*FIRST, *SECOND])]


@functools.cache
def typer():
    return load_typer(nn.LayerNorm).requires_grad_(False)


def entering(tokens):
    """Yield what enters norm 1: (B, C, P), some files at a time."""
    for some in tokens.split(BATCH):
        yield F.gelu(typer().embed(some), approximate="tanh").reshape(-1, 512, 256).mT


def pooled(tokens, first):
    """Return what enters norm 2, (B, 512), with a rule in the place of norm 1."""
    net, out = typer(), []
    for x in entering(tokens):
        x = first(x) * net.norm1.weight + net.norm1.bias
        out.append(F.gelu(net.conv(x), approximate="tanh").amax(-1))
    return torch.cat(out)


@functools.cache
def pooled_of(seed, first):
    return pooled(files(seed), FIRST.get(first, ln))


@functools.cache
def usual():
    """Return the median sizes, on the course's 48 files, of what enters the two norms.

    Norm 1: one for each feature, (C, 1). Norm 2: one, and one with norm 1's frozen.
    """
    tokens = torch.stack([file_bytes(content) for content in data.file_corpus().values()])
    one = torch.cat([size(x) for x in entering(tokens)]).median(0).values  # (C, 1)
    after = pooled(tokens, ln), pooled(tokens, lambda x: centered(x) / one)  # (B, 512) each
    return one, *(size(x).median() for x in after)


# A label of 26 is 3.8 %; two of them may sit on an edge that rounding decides.
@record(
    seeds=range(8),
    shows={"kept": ".0f %", "moved": ".2f", "top": ".2f", "margin": ".2f", "narrow": ".0f %"},
    tolerance={"kept": 8, "moved": 0.1, "top": 0.01, "margin": 0.02, "narrow": 8},
    rule=RULES,
)
def harder_files(seed, rule="as shipped"):
    """What a wrong rule in the norms does to 26 small, short and damaged files (a seed draws them).

    kept: percent of the labels of the original that stay. moved: the most that a score moves.
    Of the original, top: median of the highest scores. margin: median distance to the second.
    narrow: percent of the files in which this distance is below a half.
    """
    right = original(seed)  # (B, 214)
    net, x = typer(), pooled_of(seed, rule if rule in FIRST else "as shipped")
    x = SECOND.get(rule, ln)(x) * net.norm2.weight + net.norm2.bias
    shares = net.head(x).softmax(-1)  # (B, 214)
    best = right.topk(2).values  # (B, 2)
    margin = best[:, 0] - best[:, 1]  # (B,)
    return {
        "kept": 100 * (shares.argmax(1) == right.argmax(1)).double().mean(),
        "moved": (shares - right).abs().max(),
        "top": best[:, 0].median(),
        "margin": margin.median(),
        "narrow": 100 * (margin < 0.5).double().mean(),
    }
