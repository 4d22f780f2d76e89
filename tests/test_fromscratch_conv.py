"""fromscratch.conv_output_shape against the convolutions and poolings of torch."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from fromscratch import conv_output_shape


def in_torch(size, kernel_size, stride, padding, dilation):
    """The size that a real convolution returns, None where it refuses. One axis or two, by the length of size."""
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(size)]
    kernel = (kernel_size,) * len(size) if isinstance(kernel_size, int) else kernel_size
    try:
        found = convolve(torch.zeros(1, 1, *size), torch.zeros(1, 1, *kernel), None, stride, padding, dilation)
    except RuntimeError:
        return None
    return tuple(found.shape[2:])


def ours(*settings):
    try:
        return conv_output_shape(*settings)
    except ValueError:
        return None


def test_one_axis_over_a_full_grid():
    grid = itertools.product(range(1, 13), range(1, 7), range(1, 5), range(4), range(1, 4))
    differ = [s for s in grid if ours((s[0],), *s[1:]) != in_torch((s[0],), *s[1:])]
    assert not differ, f"(L, k, s, p, d): {differ[:5]}"


def test_two_axes_that_differ_in_everything():
    g = torch.Generator().manual_seed(0)
    refused = 0
    for _ in range(1500):
        size, kernel, stride, padding, dilation = (
            tuple((least + torch.randint(most, (2,), generator=g)).tolist())
            for least, most in ((1, 20), (1, 7), (1, 4), (0, 4), (1, 3))
        )
        settings = (size, kernel, stride, padding, dilation)
        assert ours(*settings) == in_torch(*settings), settings
        refused += ours(*settings) is None
    assert 100 < refused < 1400, "both kinds must occur"


def test_three_axes_and_defaults():
    assert conv_output_shape((4, 6, 9), 2) == (3, 5, 8) == in_torch((4, 6, 9), 2, 1, 0, 1)
    assert conv_output_shape((8, 6), 3, padding=1) == (8, 6)


def test_pooling_follows_the_same_rule():
    for L, k, s, p, d in itertools.product(range(4, 15), range(1, 5), range(1, 4), range(2), range(1, 3)):
        if p <= k // 2 and d * (k - 1) + 1 <= L + 2 * p:
            pooled = F.max_pool2d(torch.zeros(1, 1, L, L + 3), k, s, p, d)
            assert conv_output_shape((L, L + 3), k, s, p, d) == tuple(pooled.shape[2:])


@pytest.mark.parametrize("size", [(8, 6), [8, 6], torch.Size([8, 6]), torch.zeros(2, 3, 8, 6).shape[2:]])
def test_sizes_may_come_as_tuple_list_or_torch_size(size):
    found = conv_output_shape(size, [3, 2], torch.Size([1, 2]))
    assert found == (6, 3) and type(found) is tuple and all(type(n) is int for n in found)


@pytest.mark.parametrize(
    "settings, words",
    [
        (((2, 2), 5), "does not fit"),
        (((2, 2), 5, 3), "does not fit"),  # the bare formula gives 0 here
        (((8, 2), 3), "does not fit"),
        (((8, 8), 5, 1, 0, 2), "does not fit"),
        (((8, 6), 0), "kernel_size"),
        (((8, 6), 3, 0), "stride"),
        (((8, 6), 3, 1, -1), "padding"),
        (((8, 6), 3, 1, 0, 0), "dilation"),
        (((0, 6), 1), "size"),
        (((8, 6), (3, 3, 3)), "kernel_size"),
        (((8, 6), 3, (1,)), "stride"),
        (((), 3), "size"),
    ],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        conv_output_shape(*settings)


@pytest.mark.parametrize(
    "settings", [((8.0, 6), 3), ((8, 6), 3.0), ((8, 6), 3, 1, "same"), ((8, 6), 3, None), (8, 3), ((8, 6), 3, 1, True)]
)
def test_what_is_no_whole_number_is_refused(settings):
    with pytest.raises(TypeError, match="whole number"):
        conv_output_shape(*settings)


def test_refusals_name_the_numbers():
    with pytest.raises(ValueError, match="9 pixels.*8"):
        conv_output_shape((8, 8), 5, dilation=2)
