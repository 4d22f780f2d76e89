"""What lesson 2 says of many runs: which strangers in a batch harm a net, and through which number they come in."""

from fromscratch.statistics import digit_reader, mean_and_var, read_beside
from lessonkit.evidence import record

PERCENT = ".0f %"


# Percent of 517 pictures; another processor rounds differently for 200 steps of training.
@record(
    seeds=range(16),
    shows=dict.fromkeys(
        ["own", "crowd", "faint", "dark", "ground", "gray", "gray_crowd"], PERCENT
    ),
    tolerance=4,
)
def strangers(seed):
    """Read beside one ordinary stranger, 63, a faint one, one of sixteenfold ink, one on a dark ground, gray ones."""
    net = digit_reader(lambda x: (x - x.mean()) / x.std(), seed)
    return {
        "own": read_beside(net),
        "crowd": read_beside(net, strangers=63),
        "faint": read_beside(net, times=0.1),
        "dark": read_beside(net, times=16),
        "ground": read_beside(net, plus=240),
        "gray": read_beside(net, times=4),
        "gray_crowd": read_beside(net, times=4, strangers=63),
    }


# With biases and a hundredfold stranger a net reads half or less, and by how much hangs on a few of its weights.
@record(
    seeds=range(16),
    shows=dict.fromkeys(["own", "dark", "ground", "level", "glare"], PERCENT),
    tolerance={"own": 4, "dark": 4, "ground": 6, "level": 4, "glare": 8},
    biases=[False, True],
    mean=["batch", "row"],
    std=["batch", "row"],
)
def ways_in(seed, biases=False, mean="batch", std="batch"):
    """Take mean and deviation of the batch or of each row, and read beside a stranger.

    own: an ordinary one. dark: sixteenfold ink. ground: a dark ground. level: sixteenfold ink, less 78, so that its
    mean is an ordinary one. glare: a hundredfold ink.
    """

    def norm(x):
        row_mean, row_var = mean_and_var(x)
        center = row_mean if mean == "row" else x.mean()
        return (x - center) / (row_var.sqrt() if std == "row" else x.std())

    net = digit_reader(norm, seed, biases)
    return {
        "own": read_beside(net),
        "dark": read_beside(net, times=16),
        "ground": read_beside(net, plus=240),
        "level": read_beside(net, times=16, plus=-78),
        "glare": read_beside(net, times=100),
    }
