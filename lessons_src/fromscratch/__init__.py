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
}
__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"fromscratch has no {name!r}; the lessons export: {', '.join(__all__)}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__():
    return __all__
