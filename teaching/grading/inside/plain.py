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
MOST_HEADER = 16 << 20  # bytes
TENSORS = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)}  # fmt: skip
ARRAYS = {numpy.dtype(name).str for name in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")}
KINDS = {"float", "dots", "fraction", "dtype", "device", "raised", "thing", "tensor", "array", "number"}
GROUPS = {"tuple": tuple, "list": list, "set": set, "frozenset": frozenset, "size": torch.Size}


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
    if value is None or kind is bool or kind is int and value.bit_length() < 10_000:
        return value
    if kind in (str, numpy.str_):
        return str(value)[:LONGEST]
    if depth > DEEPEST:
        return _thing(value)
    if kind is float:
        return ["float", value.hex()]
    if value is ...:
        return ["dots"]
    if kind is Fraction:
        return ["fraction", value.numerator, value.denominator]
    if kind is torch.dtype:
        return ["dtype", str(value).removeprefix("torch.")]
    if kind is torch.device:
        return ["device", str(value)]
    if isinstance(value, Raised):
        return ["raised", str(value.kind)[:200], str(value.text)[:LONGEST], str(value.line)[:LONGEST]]
    if isinstance(value, torch.Tensor):
        return _tensor(value, raw)
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        array = numpy.ascontiguousarray(value)
        if array.dtype.str not in ARRAYS:
            return _thing(value)
        raw.append(array.tobytes())
        return ["array" if isinstance(value, numpy.ndarray) else "number", array.dtype.str, list(value.shape)]
    if isinstance(value, dict):
        return ["dict", [[_encoded(part, raw, depth + 1) for part in pair] for pair in value.items()]]
    for name, group in GROUPS.items():
        if kind is group or group is tuple and isinstance(value, tuple) and kind is not torch.Size:
            return [name, [_encoded(item, raw, depth + 1) for item in value]]
    return _thing(value)


def _tensor(value, raw):
    name = str(value.dtype).removeprefix("torch.")
    if name not in TENSORS or value.layout != torch.strided or value.device.type not in ("cpu", "meta"):
        return _thing(value)
    if value.device.type == "cpu":
        plain = torch.empty(value.numel(), dtype=value.dtype)
        plain.copy_(value.detach().reshape(-1))
        raw.append(plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return ["tensor", name, list(value.shape), value.device.type, value.requires_grad]


def _thing(value):
    from lessonkit.check.verdicts import kind_of

    name = type(value).__name__
    return [
        "thing",
        name[:100],
        kind_of(value)[:200] if isinstance(value, type) or callable(value) else repr(value)[:200],
    ]


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

    def read(self, item, depth):
        self.values += 1
        if self.values > MOST_VALUES or depth > DEEPEST + 2:
            raise Malformed("too many values")
        if item is None or isinstance(item, (bool, int, str)):
            return item[:LONGEST] if isinstance(item, str) else item
        if type(item) is not list or not item or type(item[0]) is not str:
            raise Malformed("no value")
        kind, *rest = item
        if kind in GROUPS:
            return GROUPS[kind](self.read(part, depth + 1) for part in rest[0])
        if kind == "dict":
            return {self.read(key, depth + 1): self.read(part, depth + 1) for key, part in rest[0]}
        if kind not in KINDS:  # or a message could call any method by its name
            raise Malformed("no kind of value")
        return getattr(self, f"_{kind}")(*rest)

    def _float(self, text):
        return float.fromhex(text[:40])

    def _dots(self):
        return ...

    def _fraction(self, numerator, denominator):
        return Fraction(int(numerator), int(denominator))

    def _dtype(self, name):
        value = getattr(torch, str(name), None)
        if type(value) is not torch.dtype:
            raise Malformed("no number type")
        return value

    def _device(self, text):
        return torch.device(text[:20])

    def _raised(self, *texts):
        kind, text, line = (str(part)[:LONGEST] for part in texts)
        return Raised(kind or "Exception", text, line)

    def _thing(self, name, text):
        return type(name if re.fullmatch(r"\w{1,60}", name) else "object", (Thing,), {})(str(text)[:300])

    def _tensor(self, name, shape, device, needs_gradient):
        dtype, shape = TENSORS[name], self._shape(shape)
        if device == "meta":
            value = torch.empty(shape, dtype=dtype, device="meta")
        elif not math.prod(shape):
            value = torch.empty(shape, dtype=dtype)
        else:  # a truth value may be any byte here
            raw_type = torch.uint8 if dtype == torch.bool else dtype
            value = torch.frombuffer(self._bytes(math.prod(shape) * dtype.itemsize), dtype=raw_type).reshape(shape)
            value = value.ne(0) if dtype == torch.bool else value
        return value.requires_grad_(needs_gradient is True)

    def _array(self, name, shape):
        if name not in ARRAYS:
            raise Malformed("no number type")
        dtype, shape = numpy.dtype(name), self._shape(shape)
        return numpy.frombuffer(self._bytes(math.prod(shape) * dtype.itemsize), dtype=dtype).reshape(shape)

    def _number(self, name, shape):
        return self._array(name, shape)[()]

    def _shape(self, shape):
        if len(shape) > 20 or any(type(size) is not int or not 0 <= size < 2**40 for size in shape):
            raise Malformed("no shape")
        if math.prod(size or 1 for size in shape) > 2**48:
            raise Malformed("no shape")
        return tuple(shape)

    def _bytes(self, count):
        part = bytearray(self.raw[self.at : self.at + count])
        if len(part) != count:
            raise Malformed("fewer bytes than its header says")
        self.at += count
        return part
