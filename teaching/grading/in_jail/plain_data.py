"""Observations as plain data: what goes from a jail to those who compare. Never pickle.

A message is the length of its header, the header (JSON), and the raw numbers of its tensors one after the other. What
is read may have been written by an answer that has taken over its process, so nothing in it is believed: a message
gives None, truths, numbers, texts, tuples, lists, sets, dictionaries, tensors, arrays and Raised, or it is Malformed.
Every other object arrives as a Thing, which knows the name of its type and a line of text.
"""

import json
import math
import re
import struct
from fractions import Fraction

import numpy
import torch

from lessonkit.check.verdicts import Raised

DEEPEST, MOST_VALUES, LONGEST = 30, 200_000, 20_000  # levels and values of a message, characters of a text
MOST_KEYS, MOST_BITS = 1000, 256  # of a set or dictionary, and of a whole number: many that hash alike take hours
MOST_HEADER = 16 << 20  # bytes
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.bool,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8,
)}  # fmt: skip
GROUPS = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset, "size": torch.Size}
TEXTS = {  # what is sent as a text: how it is written, and how it is read
    float: (float.hex, float.fromhex),
    Fraction: (str, lambda text: Fraction(*map(int, text.split("/")))),  # Fraction(text) would compute 10**1000000000
    torch.dtype: (str, {str(item): item for item in vars(torch).values() if type(item) is torch.dtype}.__getitem__),
    torch.device: (str, torch.device),
    type(...): (str, lambda text: ...),
}
READ = {kind.__name__: read for kind, (_, read) in TEXTS.items()}


class Malformed(Exception):
    """A message that is none: what is wrong with it."""


class Thing:
    """Stands for an object that is no plain data; its class is called as the object's."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


# ------------------------------------------------------------------------------------------------------ writing
def encode(value):
    """Return a value as the bytes of a message."""
    raw = []
    header = json.dumps(_encoded(value, raw, 0)).encode("ascii")
    return struct.pack(">I", len(header)) + header + b"".join(raw)


def _encoded(value, raw, depth):
    kind = type(value)
    if value is None or kind is bool or kind is int and value.bit_length() <= MOST_BITS:
        return value
    if kind in (str, numpy.str_):
        return str(value)[:LONGEST]
    if depth > DEEPEST:
        return _thing(value)
    if kind in TEXTS:
        return [kind.__name__, TEXTS[kind][0](value)]
    if isinstance(value, Raised):
        return ["raised", str(value.kind)[:200], str(value.text)[:LONGEST], str(value.line)[:LONGEST]]
    if isinstance(value, torch.Tensor):
        return ["tensor", *tensor] if (tensor := _tensor(value, raw)) else _thing(value)
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        try:
            tensor = _tensor(torch.from_numpy(numpy.array(value)), raw)
        except (TypeError, ValueError):  # its numbers are none of PyTorch's
            return _thing(value)
        return ["array" if isinstance(value, numpy.ndarray) else "number", *tensor]
    if isinstance(value, dict):
        return ["dict", [[_encoded(part, raw, depth + 1) for part in pair] for pair in value.items()]]
    for name, group in GROUPS.items():
        if kind is group or group is tuple and isinstance(value, tuple) and kind is not torch.Size:
            return [name, [_encoded(item, raw, depth + 1) for item in value]]
    return _thing(value)


def _tensor(value, raw):
    """Return what the header says of a tensor, None if it is no plain one. Its numbers are added to raw."""
    name = str(value.dtype).removeprefix("torch.")
    if name not in DTYPES or value.layout != torch.strided or value.device.type not in ("cpu", "meta"):
        return None
    if value.device.type == "cpu":
        plain = torch.empty(value.numel(), dtype=value.dtype)
        plain.copy_(value.detach().reshape(-1))
        raw.append(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return [name, list(value.shape), value.device.type, value.requires_grad]


def _thing(value):
    from lessonkit.check.verdicts import kind_of

    text = kind_of(value) if isinstance(value, type) or callable(value) else repr(value)
    return ["thing", type(value).__name__[:100], text[:200]]


# ------------------------------------------------------------------------------------------------------ reading
def decode(data):
    """Return the value of a message; Malformed for anything else."""
    try:
        (length,) = struct.unpack_from(">I", data)
        if length > MOST_HEADER:
            raise Malformed("too many values")
        header = json.loads(data[4 : 4 + length].decode("ascii"))
        reader = _Reader(memoryview(data)[4 + length :])
        value = reader.read(header, 0)
    except Malformed:
        raise
    except Exception as error:
        raise Malformed(f"{type(error).__name__}: {error}"[:200]) from None
    if reader.at != len(reader.raw):
        raise Malformed("more bytes than its header says")
    return value


class _Reader:
    def __init__(self, raw):
        self.raw, self.at, self.values = raw, 0, 0
        self.kinds = {  # only these: a message must not call whatever it names
            "raised": lambda *texts: Raised(*(str(text)[:LONGEST] for text in texts)),
            "thing": self.thing,
            "tensor": self.tensor,
            "array": lambda *about: self.tensor(*about).numpy(),
            "number": lambda *about: self.tensor(*about).numpy()[()],
        }

    def read(self, item, depth):
        self.values += 1
        if self.values > MOST_VALUES or depth > DEEPEST + 2:
            raise Malformed("too many values")
        if item is None or isinstance(item, int) and item.bit_length() <= MOST_BITS:  # or a truth
            return item
        if isinstance(item, str):
            return item[:LONGEST]
        if type(item) is not list or not item or type(item[0]) is not str:
            raise Malformed("no value")
        kind, *rest = item
        if kind in ("dict", "set", "frozenset") and len(rest[0]) > MOST_KEYS:
            raise Malformed("too many keys")
        if kind in GROUPS:
            return GROUPS[kind](self.read(part, depth + 1) for part in rest[0])
        if kind == "dict":
            return {self.read(key, depth + 1): self.read(part, depth + 1) for key, part in rest[0]}
        if kind in READ:
            return READ[kind](str(rest[0])[:LONGEST])
        return self.kinds[kind](*rest)

    def thing(self, name, text):
        return type(name if re.fullmatch(r"\w{1,60}", name) else "object", (Thing,), {})(str(text)[:300])

    def tensor(self, name, shape, device, needs_gradient):
        if len(shape) > 20 or any(type(size) is not int or not 0 <= size < 2**40 for size in shape):
            raise Malformed("no shape")
        if math.prod(size or 1 for size in shape) > 2**48:
            raise Malformed("no shape")
        dtype, count = DTYPES[name], math.prod(shape)
        if device == "meta" or not count:
            value = torch.empty(shape, dtype=dtype, device="meta" if device == "meta" else "cpu")
        elif dtype == torch.bool:  # a truth value may be any byte here
            value = torch.frombuffer(self._bytes(count), dtype=torch.uint8).reshape(shape).ne(0)
        else:
            value = torch.frombuffer(self._bytes(count * dtype.itemsize), dtype=dtype).reshape(shape)
        return value.requires_grad_(needs_gradient is True)

    def _bytes(self, count):
        part = bytearray(self.raw[self.at : self.at + count])
        if len(part) != count:
            raise Malformed("fewer bytes than its header says")
        self.at += count
        return part
