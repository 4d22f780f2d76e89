"""What the course has built so far: its own solutions, not what a learner typed.

Made by coursebuild from the lessons' export cells; a name is loaded when it is first asked for.
"""

import importlib

_HOME = {
    "digit_reader": "statistics",
    "mean_and_var": "statistics",
    "read": "statistics",
    "read_beside": "statistics",
    "clinic_norm": "epsilon",
    "normalize": "epsilon",
    "LayerNorm": "affine_and_module",
    "OldNorm": "affine_and_module",
    "layer_norm": "affine_and_module",
    "normalize_over": "affine_and_module",
    "safe_softmax": "softmax",
    "BatchNorm1d": "batchnorm",
    "RunningStatistics": "batchnorm",
    "channel_stats": "batchnorm",
    "LayerNormFunction": "backward",
    "layer_norm_backward": "backward",
    "RMSNorm": "geometry",
    "conv_output_shape": "cnn",
    "digit_cnn": "cnn",
    "kaiming": "cnn",
    "learn": "cnn",
    "mlp": "cnn",
    "pulled": "cnn",
    "LayerNormGRUCell": "rnn",
    "LayerNormLSTMCell": "rnn",
    "Reader": "rnn",
    "Shift": "rnn",
    "without_norms": "rnn",
    "Attention": "transformer",
    "Block": "transformer",
    "CharGPT": "transformer",
    "Placed": "transformer",
    "attention": "transformer",
    "batch": "transformer",
    "corpus": "transformer",
    "encode": "transformer",
    "learn_words": "transformer",
    "nats": "transformer",
    "placed": "transformer",
    "start_as": "transformer",
    "training": "transformer",
    "validation": "transformer",
    "GroupNorm": "family",
    "group_norm": "family",
    "train_gpt": "family",
    "AHEAD": "speed",
    "FusedLayerNorm": "speed",
    "LARGE": "speed",
    "LONG": "speed",
    "LOOPS": "speed",
    "PAGE": "speed",
    "PAGES_AHEAD": "speed",
    "PIECE": "speed",
    "ROWS_A_BLOCK": "speed",
    "backward_past_caches": "speed",
    "backward_rows": "speed",
    "copy_past": "speed",
    "forward_past_caches": "speed",
    "forward_rows": "speed",
    "fused_layer_norm": "speed",
    "line_by_line": "speed",
    "on_rows": "speed",
    "one_pass_rows": "speed",
    "standardize": "speed",
    "with_var": "speed",
    "FileTyper": "in_the_wild",
    "file_bytes": "in_the_wild",
    "load_typer": "in_the_wild",
    "magika_norm": "in_the_wild",
    "magika_scores": "in_the_wild",
}
__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"fromscratch has no {name!r}; the lessons export: {', '.join(__all__)}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__():
    return __all__
