"""What the course has built so far: its own solutions, not what a learner typed.

Made by build.py from the lessons' export cells; a name is loaded when it is first asked for.
"""

import importlib

_HOME = {
    "mean_and_var": "lesson_02",
    "normalize": "lesson_03",
    "LayerNorm": "lesson_04",
    "layer_norm": "lesson_04",
    "BatchNorm1d": "lesson_06",
    "RunningStatistics": "lesson_06",
    "channel_stats": "lesson_06",
    "LayerNormFunction": "lesson_07",
    "layer_norm_backward": "lesson_07",
    "RMSNorm": "lesson_08",
    "conv_output_shape": "lesson_09",
    "LayerNormGRUCell": "lesson_10",
    "LayerNormLSTMCell": "lesson_10",
    "Attention": "lesson_11",
    "Block": "lesson_11",
    "CharGPT": "lesson_11",
    "attention": "lesson_11",
    "encode": "lesson_11",
    "GroupNorm": "lesson_12",
    "FusedLayerNorm": "lesson_13",
    "LARGE": "lesson_13",
    "LOOPS": "lesson_13",
    "PIECE": "lesson_13",
    "ROWS_A_BLOCK": "lesson_13",
    "backward_past_caches": "lesson_13",
    "backward_rows": "lesson_13",
    "copy_past": "lesson_13",
    "forward_past_caches": "lesson_13",
    "forward_rows": "lesson_13",
    "fused_layer_norm": "lesson_13",
    "line_by_line": "lesson_13",
    "on_rows": "lesson_13",
    "standardize": "lesson_13",
    "with_var": "lesson_13",
}
__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"fromscratch has no {name!r}; the lessons export: {', '.join(__all__)}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__():
    return __all__
