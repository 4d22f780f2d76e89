"""What lesson 2 says of many runs: which strangers in a batch harm a net with one mean for all."""

from fromscratch.statistics import digit_reader, read_beside
from lessonkit.evidence import record


# Percent of 517 pictures; another processor rounds differently for 200 steps of training.
@record(
    seeds=range(16),
    shows=dict.fromkeys(["own", "crowd", "faint", "dark", "ground"], ".0f %"),
    tolerance=4,
)
def strangers(seed):
    """Read beside one ordinary stranger, 63, a faint one, one of sixteenfold ink, one on a dark ground."""
    net = digit_reader(lambda x: (x - x.mean()) / x.std(), seed)
    return {
        "own": read_beside(net),
        "crowd": read_beside(net, strangers=63),
        "faint": read_beside(net, times=0.1),
        "dark": read_beside(net, times=16),
        "ground": read_beside(net, plus=240),
    }
