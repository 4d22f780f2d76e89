"""What the sweep of a contract finds that no probe was written for, and what an answer may not do to the world."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lessonkit.check.declare import NotYet, Probe, call, examine
from lessonkit.check.layers import of_a_layer
from lessonkit.check.misconceptions import instead, misconceptions
from lessonkit.check.sweep import Contract, sweep
from tests.helpers import draw

ROWS = Contract({"x": "... D", "weight": "D"}, options=({}, {"eps": 0.1}), half=True, empty=True)
FIRST = [call("3 rows of 5", draw(0, 3, 5), draw(1, 5), names=("x", "weight"))]


def right(x, weight, eps=1e-5):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    centered = wide - wide.mean(-1, keepdim=True)
    var = centered.square().mean(-1, keepdim=True)
    return (centered / torch.sqrt(var + eps) * weight).to(x.dtype)


def reference(x, weight, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight.to(x.dtype), eps=eps)


def told(answer, contract=ROWS, probes=FIRST, truth=reference, **more):
    """Return what a rejection says, "" for an answer that is accepted."""
    try:
        examine(answer, "toy", probes, truth, contract=contract, **more)
    except NotYet as error:
        return str(error)
    return ""


def keeping():
    sizes = {}

    def answer(x, weight, eps=1e-5):
        size = sizes.setdefault((x.shape, x.dtype, eps), x.detach().abs().sum())
        return right(x, weight, eps) * (1 + (size - x.abs().sum()).detach())

    return answer


RESULT = "return (centered / torch.sqrt(var + eps) * weight).to(x.dtype)"
WIDE = "wide = x.to(torch.promote_types(x.dtype, torch.float32))"


def off(condition):
    """Return an answer that is right but where a condition on x holds."""
    return instead(right, f"{RESULT} + 1e-3 * ({condition})")


BROKEN = {  # words of what is told: the answer, or a line that stands in the right one
    "D = 1100": off("x.shape[-1] > 300"),
    "rows = 1": off("x.dim() == 2 and len(x) == 1"),
    "rows = 70": off("x.dim() == 2 and len(x) > 16"),
    "front axes = 0": off("x.dim() == 1"),
    "front axes = 4": off("x.dim() == 5"),
    "memory": off("not x.is_contiguous()"),
    "gradient of x": WIDE.replace("x.to", "(x.detach() if x.dtype == torch.float32 else x).to"),
    "float16": f"{WIDE} if x.dtype != torch.float16 else x",
    "gradient": f"{RESULT} + (x - x.detach()) * x.detach() * 0.1",
    "eps=0.1": "var = centered.square().mean(-1, keepdim=True) + 1e-5 - eps",
    "On x": keeping(),
    "large": f"{WIDE}.clamp(-3e4, 3e4)",
    "outlier": f"{RESULT}.clamp(-30, 30)",
    "ZeroDivisionError": "x.numel() or 1 / 0",
    "changed its input": "x.data.sub_(0.25)",
    "random generator": "torch.manual_seed(3)",
    "default dtype": "torch.set_default_dtype(torch.float64)",
    "gradients are recorded": "torch.set_grad_enabled(False)",
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_broken_promise_is_found(words):
    answer = instead(right, BROKEN[words]) if isinstance(BROKEN[words], str) else BROKEN[words]
    before = torch.get_default_dtype(), torch.is_grad_enabled(), torch.random.get_rng_state()
    text = told(answer)
    assert words in text, text
    assert before[:2] == (torch.get_default_dtype(), torch.is_grad_enabled())
    assert torch.equal(before[2], torch.random.get_rng_state())


def test_right_answers_pass_and_may_draw():
    assert told(right) == "" and told(instead(right, "import random\ntorch.rand(random.randrange(9))")) == ""


def test_what_is_told_is_the_plainest_case():
    text = told(off("x.shape[-1] == 1100"))
    assert text.startswith("Not yet. On x (2, 1100), weight (1100,) (float64): the result")
    assert text.endswith("It is right without: D = 1100.")


def test_all_pairs_of_choices_come_together():
    factors, cases = ROWS.factors(), [probe.run.args[1] for probe in sweep(ROWS)]
    names = list(factors)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            pairs = {(case[a], case[b]) for case in cases}
            assert {(x, y) for x in factors[a] for y in factors[b]} <= pairs, (a, b)


def test_an_endless_loop_stops_with_a_sentence():
    def endless(x, weight, eps=1e-5):
        while True:
            try:
                x = x + 0
            except Exception:
                pass

    probe = replace(FIRST[0], seconds=0.3)
    assert "it runs on and on. It was stopped after 0.3 seconds" in told(endless, probes=[probe])


def test_no_probe_hands_out_what_it_keeps():
    held = draw(5, 4)
    probe = Probe("a tensor of its own", lambda answer: {"the result": answer(held).sum()})
    spoil = lambda x: x.data.mul_(0)
    assert "changed its input" in told(spoil, None, [probe], lambda x: x)
    assert told(lambda x: x + 0, None, [probe], lambda x: x) == "", (
        "and the next answer is judged as if nothing had been"
    )


class Layer(nn.Module):
    shared = None

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return right(x, self.weight)


class Tied(Layer):
    def __init__(self, width):
        super().__init__(width)
        self.work = lambda x: right(x, self.weight)

    def forward(self, x):
        return self.work(x)


class Shared(Layer):
    def forward(self, x):
        type(self).shared = self.weight if type(self).shared is None else type(self).shared
        return right(x, type(self).shared)


MOODY = instead(Layer, "return right(x, self.weight if self.training else self.weight + 1)")
NEVER_TRAINED = instead(Layer, "return right(x, self.weight if x.requires_grad else self.weight.detach())")


@pytest.mark.parametrize(
    "cls, words", [(Tied, "deepcopy"), (Shared, "share"), (MOODY, "eval()"), (NEVER_TRAINED, "first of a net")]
)
def test_what_every_layer_promises(cls, words):
    probes = of_a_layer(lambda layer: layer(5), draw(6, 3, 5))
    assert words in told(cls, None, probes, Layer) and not told(Layer, None, probes, Layer)


# ------------------------------------------------------------------------------------------- misconceptions, as lines


def solution(x):
    mean = x.mean(-1, keepdim=True)
    total = 0
    for row in x:
        part = row.sum()
        total = total + part
    return x - mean, total


@pytest.mark.parametrize(
    "lines, expected",
    [
        ("mean = x.mean()", lambda x: (x - x.mean(), x.sum())),
        ("mean, total = x.amax(), 1.0", lambda x: (x - x.amax(), 1.0)),
        ("del part\npart = 3", None),
        ("y = x * 2\nreturn y, total", lambda x: (2 * x, x.sum())),
        ("def solution(x, more=1): ...", lambda x: (x - x.mean(-1, keepdim=True), x.sum())),
    ],
)
def test_lines_of_a_mistake_find_their_place(lines, expected):
    x = draw(7, 2, 3)
    if expected:
        torch.testing.assert_close(instead(solution, lines)(x), expected(x))
    with pytest.raises(ValueError, match="changes nothing"):
        instead(solution, "mean = x.mean(-1, keepdim=True)")


def test_a_block_is_a_cause_a_repair_and_several_ways():
    first, second = misconceptions(
        solution,
        """
        # the mean is that of all rows. | Say -1.
        mean = x.mean()
        # or
        mean = x.mean(0)
        """,
    )
    assert (first.cause, first.repair, second.cause) == ("the mean is that of all rows.", "Say -1.", first.cause)
    assert first.told == "the mean is that of all rows. | Say -1."


@pytest.mark.parametrize(
    "text",
    [
        "mean = x.mean()",
        "# all rows.\nmean = x.mean()\n# the first axis.\nmean = x.mean(0)",
        "# all rows.",
        "# all rows.\n\nmean = x.mean()",
    ],
)
def test_a_block_without_a_cause_with_two_or_without_lines_is_refused(text):
    with pytest.raises(ValueError, match="Begin each with its cause in a comment, leave an empty line before it"):
        misconceptions(solution, text)
