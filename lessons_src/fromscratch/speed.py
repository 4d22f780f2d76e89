"""What lesson 13 builds: AHEAD, FusedLayerNorm, LARGE, LONG, LOOPS, PAGE, PAGES_AHEAD, PIECE, ROWS_A_BLOCK, backward_past_caches, backward_rows, copy_past, forward_past_caches, forward_rows, fused_layer_norm, line_by_line, on_rows, one_pass_rows, standardize, with_var.

Made by coursebuild from lessons_src/lessons/13_speed/lesson.py: edit the lesson, not this file.
"""

from fromscratch import layer_norm_backward
from fromscratch import mean_and_var
from llvmlite import binding
from llvmlite import ir
from numba import carray
from numba import cfunc
from numba import njit
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from pathlib import Path
import ctypes
import functools
import math
import numba
import numpy as np
import os
import timeit
import torch


def line_by_line(x, weight, bias, eps=1e-5):
    """LayerNorm over the last axis of x (..., D), in seven lines."""
    mean = x.mean(-1, keepdim=True)  # (..., 1)
    c = x - mean  # (..., D)
    squares = c * c  # (..., D)
    var = squares.mean(-1, keepdim=True)  # (..., 1)
    x_hat = c * torch.rsqrt(var + eps)  # (..., D)
    scaled = x_hat * weight  # (..., D)
    return scaled + bias  # (..., D)


# Runs a layer forward and backward.
def _both_passes(layer, dy, *inputs):
    """Run a layer forward and, with dy from above, backward: a gradient for each input."""
    leaves = [item.detach().requires_grad_() for item in inputs]
    return torch.autograd.grad(layer(*leaves), leaves, dy)


# The stopwatch.
def _in_copies(functions, moved=None, rounds=15):
    """Print the median time of each function() in copies of 17 MB, or a range if busy.

    moved: {name: gigabytes that it has to move}, to print GB/s as well.
    """
    x, y = torch.ones(2, 4096, 1024)  # (rows, D) each
    functions = {"a copy": lambda: y.copy_(x)} | functions
    times = {name: [] for name in functions}
    for _ in range(rounds):  # in turn, so that a slow moment meets all
        for name, function in functions.items():
            times[name].append(1e3 * timeit.timeit(function, number=1))
    copies = np.array(times.pop("a copy"))
    low, copy, high = np.quantile(copies, [0.1, 0.5, 0.9])
    print(f"a copy: {copy:.2f} ms, spread {(high - low) / copy:.0%}")
    busy = high - low > copy / 3
    if busy:
        print(
            "The machine is busy: no verdict, only the middle half of the quotients of a round."
        )
    for name, item in times.items():
        some = np.quantile(item / copies, [0.25, 0.75]) if busy else [np.median(item) / copy]
        speed = f", {1e3 * moved[name] / np.median(item):5.1f} GB/s" if moved else ""
        print(f"{name:16} {' to '.join(f'{one:.1f}' for one in some):>5} copies{speed}")


# LOOPS: what the compiler may do.
def _keep_compiled():
    """Keep compiled loops on disk, in NUMBA_CACHE_DIR or ~/.cache, never among the sources.
    Returns whether it can.
    """
    try:
        folder = Path(
            numba.config.CACHE_DIR or Path.home() / ".cache" / "layernorm-from-scratch"
        )
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # nowhere to write, or no home
        return False
    numba.config.CACHE_DIR = str(folder)
    # what a notebook defines is compiled anew
    return os.access(folder, os.W_OK) and __name__ != "__main__"


LOOPS = dict(
    fastmath={"reassoc", "contract", "nsz"},
    nogil=True,
    error_model="numpy",
    cache=_keep_compiled(),
)
ROWS_A_BLOCK = 64


@njit(nogil=True, error_model="numpy", fastmath=False)
def standardize(value, near, rest, rstd):
    """One number of x_hat. The mean is near + rest; value - near is exact where value is close
    to the mean.
    """
    return (value - near - rest) * rstd


@njit(**LOOPS)
def forward_rows(x, weight, bias, eps, y, mean, rstd, start, stop):
    """LayerNorm of the rows start, …, stop - 1, written into y, mean and rstd.

    Example: the row 2**24 + (0, 2, 4, 8) has mean[r] = 2**24 + 3.5 and, with eps = 0.25,
    rstd[r] = 1/3; with gain 1 and bias 0 its y[r] is (-3.5, -1.5, 0.5, 4.5) / 3.
    x, y: (rows, D), NumPy arrays, both float32 or both float64; weight, bias: (D,).
    mean: (rows,), float64; rstd: (rows,), 1 / sqrt(var + eps).
    One number at a time: x[r, i], read at most three times; y[r, i], written once.
    Write the mean as np.float64(near) + rest: two float32 would round it.
    """
    D = x.shape[1]
    number = x.dtype.type  # float32 or float64, as x: a sum that begins with 0.0 is slower
    for r in range(start, stop):
        total = number(0)
        for i in range(D):
            total += x[r, i]
        near, sum_c, sum_cc = number(total / D), number(0), number(0)
        for i in range(D):
            c = x[r, i] - near
            sum_c += c
            sum_cc += c * c
        rest = number(sum_c / D)
        mean[r] = np.float64(near) + rest
        rstd[r] = 1 / np.sqrt(sum_cc / D - rest * rest + eps)
        for i in range(D):
            y[r, i] = standardize(x[r, i], near, rest, rstd[r]) * weight[i] + bias[i]


@njit(**LOOPS)
def backward_rows(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    """Gradients of the rows start, …, stop - 1: into dx, and into the sums of each row's block.

    Example, lesson 7's row: x = (0, 1, 2, 5), mean 2, rstd 1/2, weight (3, 1, 2, -1) and
    dy = (0, 7, 2, 3) give dx = (-2, 2, 1, -1); dweight grows by (0, -3.5, 0, 4.5), dbias by dy.
    dy, x, dx: (rows, D), all float32 or all float64; mean: (rows,), float64; rstd: (rows,).
    weight: (D,); dweight, dbias: (blocks, D); row r adds dy * x_hat and dy to what
        they hold in number r // ROWS_A_BLOCK, here called block, wherever start is.
    As in 13.2: one number at a time, x[r, i] read at most three times, dx[r, i] written once.
    """
    D = x.shape[1]
    number = x.dtype.type
    for r in range(start, stop):
        near, scale, block = number(mean[r]), rstd[r], r // ROWS_A_BLOCK
        rest = number(mean[r] - near)
        sum_h, sum_hx = number(0), number(0)
        for i in range(D):
            x_hat = standardize(x[r, i], near, rest, scale)
            h = dy[r, i] * weight[i]
            sum_h, sum_hx = sum_h + h, sum_hx + h * x_hat
            dweight[block, i] += dy[r, i] * x_hat
            dbias[block, i] += dy[r, i]
        mean_h, mean_hx = number(sum_h / D), number(sum_hx / D)
        for i in range(D):
            x_hat = standardize(x[r, i], near, rest, scale)
            dx[r, i] = scale * (dy[r, i] * weight[i] - mean_h - x_hat * mean_hx)


# A layer with x.var, which make bench times.
def with_var(x, weight, bias, eps=1e-5):
    """LayerNorm over the last axis of x (..., D), with x.var."""
    mean, var = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)  # (..., 1) each
    return (x - mean) / torch.sqrt(var + eps) * weight + bias  # (..., D)


# One loop for both statistics.
@njit(**LOOPS)
def one_pass_rows(x, weight, bias, eps, y, mean, rstd, start, stop):
    """forward_rows with one loop for both statistics. Its variance is wrong far from zero."""
    D, number = x.shape[1], x.dtype.type
    for r in range(start, stop):
        total, squares = number(0), number(0)
        for i in range(D):
            total += x[r, i]
            squares += x[r, i] * x[r, i]
        mean[r] = total / D
        near = number(mean[r])
        rstd[r] = 1 / np.sqrt(squares / D - near * near + eps)
        for i in range(D):
            y[r, i] = standardize(x[r, i], near, number(0), rstd[r]) * weight[i] + bias[i]


# Memory for a piece of 64 numbers.
PIECE = 64  # numbers: whole cache lines, in float32 and in float64


@intrinsic
def _at(typing, address):
    """The memory at an address, for carray."""
    return types.voidptr(types.int64), lambda context, builder, _, items: builder.inttoptr(
        items[0], cgutils.voidptr_t
    )


@intrinsic
def _room_for_a_piece(typing):
    """Memory for PIECE numbers on the stack. The compiler sees that no array lies there, and
    need not look out for it. It also uses the longest vectors of the processor, which it avoids
    on some (LLVM's prefer-vector-width, in bits; llvmlite lists no such attribute).
    """

    def code(context, builder, *_):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        room = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), PIECE))
        room.align = 64
        return builder.bitcast(room, cgutils.voidptr_t)

    return types.voidptr(), code


# Two instructions that Numba lacks.
@intrinsic
def _move_past(typing, room, offset, address):
    """Copy the 32 bytes at room + offset to an address, a multiple of 32, past the caches."""

    def code(context, builder, _, items):
        eight = ir.VectorType(ir.FloatType(), 8).as_pointer()
        source = builder.bitcast(builder.gep(items[0], [items[1]]), eight)
        there = builder.inttoptr(items[2], eight)
        store = builder.store(builder.load(source, align=32), there, align=32)
        once = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        store.set_metadata("nontemporal", once)
        return context.get_dummy_value()

    return types.void(types.voidptr, types.int64, types.int64), code


@intrinsic
def _all_is_written(typing):
    """Wait until what was stored past the caches is there for every thread."""

    def code(context, builder, *_):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), code


# Two more: what asks for memory ahead.
def _ask(builder, address, cache):
    """Ask for the cache line at an address, into cache 1 or 2, and do not wait. Any address
    will do, also one where no array is.
    """
    number = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    there = builder.inttoptr(address, cgutils.voidptr_t)
    read, data = number(0), number(1)
    builder.call(prefetch, [there, read, number(4 - cache), data])


@intrinsic
def _fetch_page(typing, address):
    """Ask for one line: with it comes the place of its page, of 64 lines, in the memory."""

    def code(context, builder, _, items):
        _ask(builder, items[0], cache=1)
        return context.get_dummy_value()

    return types.void(types.int64), code


@intrinsic
def _fetch_piece(typing, like, address):
    """Ask for PIECE numbers of the dtype of like."""

    def code(context, builder, _, items):
        for offset in range(0, PIECE * like.dtype.bitwidth // 8, 64):
            line = builder.add(items[1], ir.IntType(64)(offset))
            _ask(builder, line, cache=2)
        return context.get_dummy_value()

    return types.void(like, types.int64), code


# Asks ahead, and copies past the caches.
AHEAD, PAGES_AHEAD = 2**13, 2**15  # bytes: how far the loops ask ahead, for lines and for pages
PAGE = 2**12  # bytes
LONG = 2**12  # bytes: longer rows go through the forward pass alone


@njit(nogil=True, error_model="numpy", fastmath=False)
def _write_past(room, size, address):
    for offset in range(0, size, 32):
        _move_past(room, offset, address + offset)


@njit(nogil=True, cache=LOOPS["cache"])
def copy_past(x, y):
    """Copy x into y past the caches: contiguous arrays of one dtype and size, whole multiples
    of 32 bytes, addresses too.
    """
    if not (x.flags.c_contiguous and y.flags.c_contiguous) or x.nbytes != y.nbytes:
        raise ValueError(
            "copy_past takes two contiguous arrays of one size. Make one: "
            "np.ascontiguousarray(x)."
        )
    if (x.nbytes | x.ctypes.data | y.ctypes.data) % 32:
        raise ValueError(
            "copy_past takes addresses and sizes that are multiples of 32 bytes. Use y[:] = x."
        )
    _write_past(_at(x.ctypes.data), x.nbytes, y.ctypes.data)
    _all_is_written()


# The forward pass, a piece at a time.
@njit(**LOOPS)
def _ask_ahead(like, at, source, target):
    """Ask for what comes after byte at: a piece of source and, now and then, pages of both."""
    _fetch_piece(like, source + at + AHEAD)
    if at % PAGE == 0:
        _fetch_page(source + at + PAGES_AHEAD)
        _fetch_page(target + at + PAGES_AHEAD)


@njit(inline="always", **LOOPS)
def _spread(x, r, k, near, sums_c, sums_cc):
    for i in range(PIECE):
        c = x[r, k, i] - near
        sums_c[i] += c
        sums_cc[i] += c * c


@njit(inline="always", **LOOPS)
def _to_y(x, r, k, near, rest, scale, weight, bias, piece):
    for i in range(PIECE):
        piece[i] = standardize(x[r, k, i], near, rest, scale) * weight[k, i] + bias[k, i]


@njit(inline="always", **LOOPS)
def _statistics(sums, sums_c, sums_cc, eps, part):
    """Return near of the row of sums, and rest and rstd of the row of the other two."""
    number = sums.dtype.type
    total, sum_c, sum_cc = number(0), number(0), number(0)
    for i in range(PIECE):
        total, sum_c, sum_cc = total + sums[i], sum_c + sums_c[i], sum_cc + sums_cc[i]
    rest = number(sum_c * part)
    rstd = number(1 / np.sqrt(sum_cc * part - rest * rest + eps))
    return number(total * part), rest, rstd


# The forward pass, past the caches.
@njit(**LOOPS)
def forward_past_caches(x, weight, bias, eps, y, mean, rstd, start, stop):
    """forward_rows for large tensors. D: a multiple of PIECE; y's address: of 64 bytes.

    Three rows at once: while row r is added up, row s before it is measured, and row t before
    that is written. So memory and processor never wait for one row's sums.
    """
    D, number, row = x.shape[1], x.dtype.type, x[0].nbytes
    pieces, part, turns = D // PIECE, 1 / D, 3 if row > LONG else 1
    x_in, room = x.reshape(len(x), pieces, PIECE), _room_for_a_piece()
    weight_in, bias_in = weight.reshape(pieces, PIECE), bias.reshape(pieces, PIECE)
    piece, sums = carray(room, (PIECE,), number), carray(_room_for_a_piece(), (PIECE,), number)
    sums_c = carray(_room_for_a_piece(), (PIECE,), number)
    sums_cc = carray(_room_for_a_piece(), (PIECE,), number)
    r, s, near, near_s, rest, scale = stop, stop, number(0), number(0), number(0), number(0)
    for turn in range(turns * (stop - start) + 2):
        next_r = stop if turn % turns else min(stop, start + turn // turns)
        t, s, r, near_t, near_s = s, r, next_r, near_s, near  # stop: no row
        for i in range(PIECE):
            sums[i], sums_c[i], sums_cc[i] = 0, 0, 0
        for k in range(pieces):
            if r < stop:
                for i in range(PIECE):
                    sums[i] += x_in[r, k, i]
            if s < stop:
                _spread(x_in, s, k, near_s, sums_c, sums_cc)
            if t < stop:
                at = (t * pieces + k) * piece.nbytes
                _ask_ahead(x, at, x.ctypes.data + 2 * row, y.ctypes.data)
                _to_y(x_in, t, k, near_t, rest, scale, weight_in, bias_in, piece)
                _write_past(room, piece.nbytes, y.ctypes.data + at)
        near, rest, scale = _statistics(sums, sums_c, sums_cc, eps, part)
        if s < stop:
            mean[s], rstd[s] = np.float64(near_s) + rest, scale
    _all_is_written()


# The backward pass, a piece at a time.
@njit(inline="always", **LOOPS)
def _to_sums(arrays, r, k, statistics, sums_h, sums_hx, piece, more):
    (dy, x, weight), (near, rest, scale) = arrays, statistics
    for i in range(PIECE):
        x_hat = standardize(x[r, k, i], near, rest, scale)
        h = dy[r, k, i] * weight[k, i]
        sums_h[i] += h
        sums_hx[i] += h * x_hat
        piece[i], more[i] = dy[r, k, i] * x_hat, dy[r, k, i]


@njit(inline="always", **LOOPS)
def _add_to(sums, block, k, piece):  # in a loop of its own: no array overlaps with a piece
    for i in range(PIECE):
        sums[block, k, i] += piece[i]


@njit(inline="always", **LOOPS)
def _to_dx(arrays, r, k, statistics, mean_h, mean_hx, piece):
    (dy, x, weight), (near, rest, scale) = arrays, statistics
    for i in range(PIECE):
        x_hat = standardize(x[r, k, i], near, rest, scale)
        piece[i] = scale * (dy[r, k, i] * weight[k, i] - mean_h - x_hat * mean_hx)


@njit(inline="always", **LOOPS)
def _means(sums_h, sums_hx, part):
    number = sums_h.dtype.type
    sum_h, sum_hx = number(0), number(0)
    for i in range(PIECE):
        sum_h, sum_hx = sum_h + sums_h[i], sum_hx + sums_hx[i]
    return number(sum_h * part), number(sum_hx * part)


# The backward pass, past the caches.
@njit(**LOOPS)
def backward_past_caches(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop):
    """backward_rows for large tensors. D: a multiple of PIECE; dx's address: of 64 bytes.

    Two rows at once: while row r is added up, dx of row s before it is written.
    """
    number, row, zero = x.dtype.type, x[0].nbytes, x.dtype.type(0)
    pieces, part, room = x.shape[1] // PIECE, 1 / x.shape[1], _room_for_a_piece()
    dy_in, x_in = dy.reshape(len(x), pieces, PIECE), x.reshape(len(x), pieces, PIECE)
    arrays = dy_in, x_in, weight.reshape(pieces, PIECE)
    to_weight, to_bias = (
        dweight.reshape(len(dweight), pieces, PIECE),
        dbias.reshape(len(dbias), pieces, PIECE),
    )
    piece, more = carray(room, (PIECE,), number), carray(_room_for_a_piece(), (PIECE,), number)
    sums_h, sums_hx = (
        carray(_room_for_a_piece(), (PIECE,), number),
        carray(_room_for_a_piece(), (PIECE,), number),
    )
    of_r, mean_h, mean_hx, block = (zero, zero, zero), zero, zero, 0
    for r in range(start, stop + 1):
        s, of_s = r - 1, of_r
        if r < stop:
            near, block = number(mean[r]), r // ROWS_A_BLOCK
            of_r = near, number(mean[r] - near), rstd[r]
        for i in range(PIECE):
            sums_h[i], sums_hx[i] = 0, 0
        for k in range(pieces):
            if r < stop:
                _to_sums(arrays, r, k, of_r, sums_h, sums_hx, piece, more)
                _add_to(to_weight, block, k, piece)
                _add_to(to_bias, block, k, more)
            if s >= start:
                at = (s * pieces + k) * piece.nbytes
                _ask_ahead(x, at, x.ctypes.data + row, dx.ctypes.data)
                _ask_ahead(x, at, dy.ctypes.data + row, dx.ctypes.data)
                _to_dx(arrays, s, k, of_s, mean_h, mean_hx, piece)
                _write_past(room, piece.nbytes, dx.ctypes.data + at)
        mean_h, mean_hx = _means(sums_h, sums_hx, part)
    _all_is_written()


# Finds the threads of PyTorch.
def _torchs_openmp():
    """Return GOMP_parallel of the OpenMP library that torch uses, or None."""
    folder = Path(torch.__file__).parent / "lib"
    for path in sorted(folder.glob("lib*omp*")):  # libgomp on Linux, libomp elsewhere
        try:
            library = ctypes.CDLL(str(path))  # torch has loaded it: no second one
            parallel, _ = library.GOMP_parallel, library.omp_get_thread_num
        except (OSError, AttributeError):
            continue
        binding.load_library_permanently(str(path))  # compiled code finds the names in it
        number = ctypes.c_uint
        parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, number, number)
        parallel.restype = None
        return parallel
    return None


_parallel = _torchs_openmp()
_my_number = types.ExternalFunction("omp_get_thread_num", types.int32())
_count = types.ExternalFunction("omp_get_num_threads", types.int32())


def _all_rows(rows):
    return 0, rows


def _whole_blocks(rows):
    """start, stop of the thread that asks: whole blocks, no row twice, none left out."""
    size = math.ceil(rows / (_count() * ROWS_A_BLOCK)) * ROWS_A_BLOCK
    return min(rows, size * _my_number()), min(rows, size * (_my_number() + 1))


_my_rows = njit(nogil=True, error_model="numpy", fastmath=False)(
    _whole_blocks if _parallel else _all_rows
)


# Adds up the sums of all blocks.
@njit(nogil=True, error_model="numpy", fastmath=False)
def _add_up(blocks, total):
    """Write the sum of blocks (blocks, D), from the first to the last and in float64, into
    total (D,).
    """
    sums = np.zeros(len(total))  # (D,) float64
    for k in range(len(blocks)):
        for i in range(len(total)):
            sums[i] += blocks[k, i]
    for i in range(len(total)):
        total[i] = sums[i]


# A C function of the forward pass.
def _forward_for_c(past, number):
    """Return what a C function of the forward pass does; past: with stores past the caches."""

    def forward(packed):
        rows, D = packed[0], packed[1]
        x, y = (
            carray(_at(packed[2]), (rows, D), number),
            carray(_at(packed[6]), (rows, D), number),
        )
        weight, bias = (
            carray(_at(packed[3]), (D,), number),
            carray(_at(packed[4]), (D,), number),
        )
        eps = carray(_at(packed[5]), (1,), np.float64)[0]
        mean = carray(_at(packed[7]), (rows,), np.float64)
        rstd = carray(_at(packed[8]), (rows,), number)
        start, stop = _my_rows(rows)
        if past:
            forward_past_caches(x, weight, bias, eps, y, mean, rstd, start, stop)
        else:
            forward_rows(x, weight, bias, eps, y, mean, rstd, start, stop)

    return forward


# A C function of the backward pass.
def _backward_for_c(past, number):
    """The same for the backward pass. The sums of each thread's blocks begin with 0."""

    def backward(packed):
        rows, D = packed[0], packed[1]
        dy, x = (
            carray(_at(packed[2]), (rows, D), number),
            carray(_at(packed[3]), (rows, D), number),
        )
        mean = carray(_at(packed[4]), (rows,), np.float64)
        rstd = carray(_at(packed[5]), (rows,), number)
        weight = carray(_at(packed[6]), (D,), number)
        dx = carray(_at(packed[7]), (rows, D), number)
        blocks = math.ceil(rows / ROWS_A_BLOCK)
        dweight = carray(_at(packed[8]), (blocks, D), number)
        dbias = carray(_at(packed[9]), (blocks, D), number)
        start, stop = _my_rows(rows)
        # A thread without rows begins where the last block may not be full: it zeroes nothing.
        first, last = math.ceil(start / ROWS_A_BLOCK), math.ceil(stop / ROWS_A_BLOCK)
        dweight[first:last] = 0
        dbias[first:last] = 0
        if past:
            backward_past_caches(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop)
        else:
            backward_rows(dy, x, mean, rstd, weight, dx, dweight, dbias, start, stop)

    return backward


# Adds them up from C, and compiles.
def _sums_for_c(number):
    """What a C function does after the backward pass: add up the sums of all blocks."""

    def sums(packed):
        D, blocks = packed[1], math.ceil(packed[0] / ROWS_A_BLOCK)
        for k in range(2):
            block_sums = carray(_at(packed[8 + k]), (blocks, D), number)
            _add_up(block_sums, carray(_at(packed[10 + k]), (D,), number))

    return sums


@functools.cache
def _for_c(make, *arguments):
    """Compile a C function. Returns (its address, the same to be called from Python)."""
    pointer = types.CPointer(types.int64)
    compiled = cfunc(types.void(pointer), cache=LOOPS["cache"])(make(*arguments))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compiled.address)
    return compiled.address, function, compiled


# Runs a kernel on all rows.
def on_rows(kernel, rows, *arguments):
    """Run a kernel, one of the four above, on all rows, in as many threads as torch uses.

    arguments: of the kernel without start and stop, tensors and eps; the first is (rows, D).
    For a backward kernel, dweight and dbias (D,) follow, and get the sums over all rows; the
    sums of the blocks need not be zeroed.
    With fewer than 2**15 numbers, which one thread handles in microseconds, one is used.
    """
    x, eps = arguments[0], None
    packed = (ctypes.c_int64 * (len(arguments) + 2))(rows, x.shape[1])
    for k, item in enumerate(arguments, 2):
        if isinstance(item, float):
            eps = ctypes.c_double(item)
            packed[k] = ctypes.addressof(eps)
        else:
            packed[k] = item.data_ptr()
    number = np.float32 if x.dtype == torch.float32 else np.float64
    backward = kernel in (backward_rows, backward_past_caches)
    past = kernel in (forward_past_caches, backward_past_caches)
    address, run, _ = _for_c(_backward_for_c if backward else _forward_for_c, past, number)
    count = torch.get_num_threads() if x.numel() >= 2**15 and _parallel else 1
    if count == 1:
        run(packed)
    else:
        _parallel(address, packed, count, 0)
    if backward:
        _for_c(_sums_for_c, number)[1](packed)


# The layer: an autograd.Function.
LARGE = 2**21  # numbers: 8.4 MB in float32


def _goes_past(out):
    """Whether out (rows, D) is written past the caches: it is large, and each row is made of
    whole cache lines.
    """
    return out.numel() >= LARGE and out.shape[1] % PIECE == 0 and out.data_ptr() % 64 == 0


class FusedLayerNorm(torch.autograd.Function):
    """FusedLayerNorm.apply(x, weight, bias, eps): LayerNorm of a contiguous (rows, D) tensor;
    weight, bias: (D,).
    """

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        rows = len(x)
        y, rstd = torch.empty_like(x), x.new_empty(rows)  # (rows, D), (rows,)
        mean = x.new_empty(rows, dtype=torch.float64)  # (rows,)
        kernel = forward_past_caches if _goes_past(y) else forward_rows
        on_rows(kernel, rows, x, weight, bias, eps, y, mean, rstd)
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.eps = eps
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, mean, rstd = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate dx: statistics anew, from x
            mean, var = mean_and_var(x)  # (rows, 1) each
            return *layer_norm_backward(dy, x, mean, torch.rsqrt(var + ctx.eps), weight), None
        rows, D = x.shape
        dx, dweight, dbias = torch.empty_like(x), x.new_empty(D), x.new_empty(D)
        sums = x.new_empty(2, math.ceil(rows / ROWS_A_BLOCK), D)  # (2, blocks, D)
        kernel = backward_past_caches if _goes_past(dx) else backward_rows
        arguments = dy.contiguous(), x, mean, rstd, weight, dx, sums[0], sums[1], dweight, dbias
        on_rows(kernel, rows, *arguments)
        return dx, dweight, dbias, None


# What the layer refuses.
def _refuse(x, shape, weight, bias):
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"fused_layer_norm takes float32 and float64, but x is {x.dtype}. Convert it: "
            "x.float()."
        )
    if x.device.type != "cpu":
        raise ValueError(
            f"fused_layer_norm works on the CPU, but x is on {x.device}. Use F.layer_norm "
            "there."
        )
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise ValueError(
            f"normalized_shape {shape} must be what x's shape ends with, but x has "
            f"{tuple(x.shape)}."
        )
    for name, item in (("weight", weight), ("bias", bias)):
        if item is None:
            continue
        has = tuple(item.shape), item.dtype, item.device
        if has != (shape, x.dtype, x.device):
            raise ValueError(
                f"{name} must have shape {shape}, dtype and device of x ({x.dtype}, "
                f"{x.device}), but has {has[0]}, {has[1]}, {has[2]}."
            )


# The layer: a function like F.layer_norm.
def fused_layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """F.layer_norm for float32 and float64 tensors on the CPU, as compiled loops.

    x: (..., *normalized_shape), contiguous or not. normalized_shape: int or tuple. weight,
        bias: of that shape, or None.
    Returns a contiguous tensor of x's shape. Raises TypeError for other dtypes, ValueError for
    shapes that do not fit and for other devices. May be differentiated more than once, the
    second time on plain operations.
    """
    shape = (
        (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    )
    _refuse(x, shape, weight, bias)
    D, flat = math.prod(shape), len(shape) == 1
    weight = x.new_ones(D) if weight is None else weight if flat else weight.reshape(D)
    bias = x.new_zeros(D) if bias is None else bias if flat else bias.reshape(D)
    if flat and x.dim() == 2 and x.is_contiguous():  # no view for autograd to walk back through
        return FusedLayerNorm.apply(x, weight.contiguous(), bias.contiguous(), float(eps))
    rows = x.reshape(math.prod(x.shape[: x.dim() - len(shape)]), D).contiguous()  # (rows, D)
    parameters = weight.contiguous(), bias.contiguous(), float(eps)
    return FusedLayerNorm.apply(rows, *parameters).view(x.shape)
