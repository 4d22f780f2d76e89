"""The LayerNorm inventory: what can be computed of its questions is true, and none is answered by its form."""

import json
import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coursebuild import command, inventory
from coursebuild.minutes import sections, total
from coursebuild.source import LessonError
from lessonkit.inventory.__main__ import printed
from lessonkit.inventory.questions import LETTERS, items, questions, right_letter, themes
from tests.helpers import ROOT, draw
from tests.toy import edit, project, whole

FORMS = pytest.mark.parametrize("form", ["A", "B"])


def norm(x, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def gradient(function, x):
    """Return the gradient of a scalar function at x."""
    x = x.clone().requires_grad_()
    return torch.autograd.grad(function(x), x)[0]


# -------------------------------------------------------------------------------------------- the claims, computed


def one_row_does_not_see_another():
    x = draw(1, 8, 100, 64)
    changed = x.clone()
    changed[2, 90] += 3
    moved = (nn.LayerNorm(64).double()(x) != nn.LayerNorm(64).double()(changed)).any(-1).nonzero()
    assert moved.tolist() == [[2, 90]]


def padding_does_not_count():
    words = draw(2, 1, 40, 64, mean=1.0)
    short, long = (F.pad(words, (0, 0, 0, many)) for many in (10, 60))
    assert torch.equal(norm(short)[:, :40], norm(long)[:, :40])
    assert not torch.allclose(F.layer_norm(short, (50, 64))[:, :40], F.layer_norm(long, (100, 64))[:, :40])


def the_shape_stays():
    x = draw(3, 256).relu() ** 2
    skew = lambda row: (((row - row.mean()) / row.std()) ** 3).mean()
    torch.testing.assert_close(skew(norm(x)), skew(x))
    assert skew(x) > 1 and norm(x).max() > 3


def an_outlier_raises_its_own_divisor():
    others = norm(draw(4, 767), eps=0)
    y = norm(torch.cat([others, others.new_tensor([60])]))
    assert 24.5 < y[-1] < 25.5 and 2.35 < 60 / y[-1] < 2.45
    most = norm(F.one_hot(torch.tensor(0), 768).double(), eps=0).max()
    torch.testing.assert_close(most.item(), math.sqrt(767))


def epsilon_counts_on_rows_of_small_variance():
    x, apart = norm(draw(5, 512), eps=0), {}
    for variance in (1.0, 1e-2, 1e-5, 1e-7):
        two = [norm(x * math.sqrt(variance), eps=eps).std() for eps in (1e-12, 1e-5)]
        apart[variance] = (two[0] / two[1]).item()
    assert apart[1.0] < 1.0001 and apart[1e-2] < 1.001 and apart[1e-7] > 10
    assert apart[1e-5] == pytest.approx(math.sqrt(2), rel=1e-6)
    assert torch.equal(norm(torch.ones(8), eps=1e-12), norm(torch.ones(8))), "constant rows are alike"


def a_small_row_leaves_with_seven_tenths():
    y = norm(0.003 * norm(draw(6, 512), eps=0))
    assert y.std(correction=0).item() == pytest.approx(math.sqrt(9 / 19), rel=1e-6)
    assert 0.003 / 0.00301 == pytest.approx(0.997, abs=5e-4) and 0.003 / 1e-5 == pytest.approx(300)


ROWS = draw(7, 1000, 512, mean=4000.0).float()


def one_pass(x):
    return (x**2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2


def error(x, variance, eps=1e-5):
    """Return the largest error of a normalization with this variance, against float64; inf where it is nan."""
    y = (x - x.mean(-1, keepdim=True)) / (variance + eps).sqrt()
    right = (x.double() - x.double().mean(-1, keepdim=True)) / (x.double().var(-1, correction=0, keepdim=True)).sqrt()
    return (y - right).abs().nan_to_num(torch.inf).max()


def steps_of_float32_are_as_large_as_the_variance():
    square = torch.tensor(4000.0) ** 2
    assert torch.nextafter(square, square + 100) - square == 1
    assert error(ROWS, one_pass(ROWS)) > 1 and error(ROWS, ROWS.var(-1, correction=0, keepdim=True)) < 0.01
    assert (ROWS**2).sum(-1).max() < 1e11 < torch.finfo(torch.float32).max


def a_shift_repairs_it():
    first = ROWS[:, :1]
    assert error(ROWS, one_pass(ROWS - first)) < 0.01
    scaled = ROWS / 4000
    assert error(scaled, one_pass(scaled), eps=0) > 1
    assert error(ROWS, one_pass(ROWS), eps=1e-2) > 1 and error(ROWS, one_pass(ROWS).clamp(min=0)) > 1


def a_linear_layer_takes_gain_and_bias_in():
    x, gain, bias = draw(8, 30, 16), draw(9, 16), draw(10, 16)
    weight, last = draw(11, 5, 16), draw(12, 5)
    before = F.linear(norm(x) * gain + bias, weight, last)
    torch.testing.assert_close(before, F.linear(norm(x), weight * gain, weight @ bias + last))


def rows_that_differ_become_one():
    x = draw(13, 16)
    torch.testing.assert_close(norm(2 * x + 3, eps=0), norm(x, eps=0))


def rms(x, eps=1e-5):
    return F.rms_norm(x, x.shape[-1:], eps=eps)


def rows_with_mean_0_are_alike_in_rmsnorm():
    x, gain = draw(14, 20, 32, mean=1.0), draw(15, 32)
    centered = x - x.mean(-1, keepdim=True)
    torch.testing.assert_close(norm(centered) * gain, rms(centered) * gain)
    unit = norm(x, eps=0) + 1  # variance 1
    for other in (x, unit):
        assert (norm(other) - rms(other)).abs().max() > 0.1, "also without a bias, and with equal gains"


def rmsnorm_keeps_what_entries_share():
    x = 100 + 2 * torch.rand(64, 256, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1
    assert (rms(x) - 1).abs().max() < 0.02 and norm(x).mean(-1).abs().max() < 1e-9


def weights_that_sum_to_0():
    weights, values = norm(draw(16, 5)), draw(17, 5, 3)
    torch.testing.assert_close(weights @ (values + 10), weights @ values)
    shares = draw(16, 5).softmax(0)
    torch.testing.assert_close(shares @ (values + 10), shares @ values + 10)


def a_floor_under_the_loss():
    best = -norm(F.one_hot(torch.tensor(0), 10).double(), eps=0).log_softmax(0)[0]
    assert 0.27 < best < 0.28 and best.neg().exp().item() == pytest.approx(0.76, abs=0.005)
    many = draw(18, 20_000, 10, scale=30.0)
    assert -norm(many).log_softmax(-1)[:, 0].max() >= best


def batchnorm_changes_in_eval():
    x = draw(19, 4, 16, scale=3.0, mean=2.0)
    batch, layer = nn.BatchNorm1d(16).double(), nn.LayerNorm(16).double()
    assert (batch(x) - batch.eval()(x)).abs().max() > 0.1
    assert torch.equal(layer(x), layer.eval()(x)) and not list(layer.buffers())
    assert batch.weight is not None and {name for name, _ in batch.named_parameters()} == {"weight", "bias"}


def a_forgotten_eval():
    x = draw(20, 1, 6, 4, 4)
    batch, layer = nn.BatchNorm2d(6).double(), nn.LayerNorm((6, 4, 4)).double()
    for _ in range(50):
        batch(draw(21, 32, 6, 4, 4, mean=1.0))
    served, ran = batch(x), batch.running_mean.clone()
    assert (served - batch.eval()(x)).abs().max() > 0.1 and torch.equal(layer(x), layer.eval()(x))
    batch.train()
    with torch.no_grad():
        batch(x)
    assert not torch.equal(ran, batch.running_mean), "it updates them without a gradient too"


def constants_leave_two_directions():
    x, dy, gain = draw(22, 12), draw(23, 12), draw(24, 12)
    true = gradient(lambda x: (norm(x, eps=0) * gain * dy).sum(), x)
    short = gain * dy / x.std(correction=0)
    for direction in (torch.ones(12).double(), norm(x, eps=0)):
        assert (true @ direction).abs() < 1e-10 < 0.1 < (short @ direction).abs()
        moved = norm(x + 1e-6 * direction, eps=0) - norm(x, eps=0)
        assert moved.abs().max() < 1e-10
    ratio = true / short
    assert ratio.max() - ratio.min() > 0.1, "and not a factor"


def the_sum_is_blind():
    x = draw(25, 12)
    assert gradient(lambda x: norm(x).sum(), x).abs().max() < 1e-10
    detached = gradient(lambda x: ((x - x.mean().detach()) / x.std(correction=0).detach()).sum(), x)
    torch.testing.assert_close(detached, torch.full_like(x, 1 / x.std(correction=0).item()))
    assert gradient(lambda x: norm(x) @ draw(26, 12), x).abs().max() > 0.1


def loss_of(weight):
    return F.cross_entropy(norm(draw(27, 20, 8) @ weight.T, eps=0), torch.arange(20) % 6)


def larger_weights_get_smaller_gradients():
    weight = draw(28, 6, 8)
    torch.testing.assert_close(loss_of(10 * weight), loss_of(weight))
    torch.testing.assert_close(gradient(loss_of, 10 * weight), gradient(loss_of, weight) / 10)


def decay_turns_weights_faster():
    weight, turned = draw(28, 6, 8), {}
    for scale in (1, 0.5):
        step = scale * weight - 0.01 * gradient(loss_of, scale * weight)
        turned[scale] = torch.acos(F.cosine_similarity(step.flatten(), weight.flatten(), 0)).item()
    assert turned[0.5] == pytest.approx(4 * turned[1], rel=0.01), "the rate at which it turns is η/‖W‖²"


def rates():
    """Return {net: accuracies (3 rates, 16 runs)} of the record of lesson 9."""
    record = json.loads((ROOT / "data/runs/cnn_learning_rates.json").read_text())
    assert record["arguments"] == {"rates": [0.1, 0.3, 1.0]}
    return {name: torch.tensor([run[name] for run in record["results"]]).view(3, 16) for name in record["results"][0]}


def a_control_needs_its_own_rate():
    plain, normed = rates()["no norm"], rates()["LayerNorm"]
    assert (normed[1] - plain[1]).max() > 80, "at a rate that is too large for some runs of the plain net"
    assert plain[2].max() < 15, "and at one that is too large for all of them, more seeds show the same again"
    assert (normed[0] - plain[0]).mean() < 2, "at a rate that suits it"


def room_for_larger_rates():
    plain, normed = rates()["no norm"], rates()["LayerNorm"]
    assert 95 < plain[0].mean() < 96.5 and 95.5 < normed[0].mean() < 97.5
    assert 0.5 < (normed[0] - plain[0]).mean() < 1.6
    assert normed[1].min() > 90 and (plain[1] > 90).sum() == 8


def a_norm_after_the_loop():
    recurrent, x, h = 1.5 * torch.eye(4).double(), draw(29, 4).abs(), torch.zeros(4).double()
    states = []
    for _ in range(2000):
        h = (recurrent @ h + x).relu()
        states.append(h)
    assert not norm(torch.stack(states)).isfinite().all() and not h.isfinite().all()
    inside = torch.zeros(4).double()
    for _ in range(2000):
        inside = norm(recurrent @ inside + x).relu()
    assert inside.isfinite().all()


def the_stream_passes_by():
    x, generator = draw(30, 64, 32), torch.Generator().manual_seed(31)
    sizes = []
    for _ in range(48):
        f = torch.randn(32, 32, dtype=torch.float64, generator=generator) / math.sqrt(32)
        assert norm(x).square().mean().item() == pytest.approx(1, abs=1e-3)
        x = x + norm(x) @ f
        sizes.append(x.square().mean().item())
    assert sizes[-1] > 3 * sizes[11] > 9 * sizes[0]


CLAIMS = {
    "A1": one_row_does_not_see_another,
    "B1": padding_does_not_count,
    "A2": the_shape_stays,
    "B2": an_outlier_raises_its_own_divisor,
    "A3": epsilon_counts_on_rows_of_small_variance,
    "B3": a_small_row_leaves_with_seven_tenths,
    "A4": steps_of_float32_are_as_large_as_the_variance,
    "B4": a_shift_repairs_it,
    "A5": a_linear_layer_takes_gain_and_bias_in,
    "B5": rows_that_differ_become_one,
    "A6": rows_with_mean_0_are_alike_in_rmsnorm,
    "B6": rmsnorm_keeps_what_entries_share,
    "A7": weights_that_sum_to_0,
    "B7": a_floor_under_the_loss,
    "A8": batchnorm_changes_in_eval,
    "B8": a_forgotten_eval,
    "A9": constants_leave_two_directions,
    "B9": the_sum_is_blind,
    "A10": larger_weights_get_smaller_gradients,
    "B10": decay_turns_weights_faster,
    "A11": a_control_needs_its_own_rate,
    "B11": room_for_larger_rates,
    "A12": a_norm_after_the_loop,
    "B12": the_stream_passes_by,
}


@pytest.mark.parametrize("name", CLAIMS)
def test_what_a_question_claims_is_so(name):
    CLAIMS[name]()


def test_every_question_has_its_claim_computed():
    assert set(CLAIMS) == set(items())


# ------------------------------------------------------------------------------------- no answer by the form alone

ABSOLUTE = set("always never only all every any none no nothing everything must cannot impossible exactly just".split())
HEDGES = set("may might could usually often some sometimes mostly likely rather generally typically perhaps".split())
PLAIN = set("the a an it its of and in to is are as that because with by at on not or this these they from for".split())


def words(text):
    return re.findall(r"[\w./²−-]*\w", text.lower())


def of(name):
    """Return (the texts of a question's options, which of them is right)."""
    options = items()[name]["options"]
    return [option["text"] for option in options], [option["right"] for option in options].index(True)


def shared(text, other):
    return len((set(words(text)) - PLAIN) & set(words(other)))


CLUES = {  # what somebody who knows nothing may look at: (option, question, all options) -> a number
    "length": lambda option, question, options: len(option),
    "words": lambda option, question, options: len(option.split()),
    "long words": lambda option, question, options: sum(map(len, words(option))) / len(words(option)),
    "first half": lambda option, question, options: len(option.partition(",")[0]),
    "second half": lambda option, question, options: len(option.partition(",")[2]),
    "commas": lambda option, question, options: option.count(","),
    "digits": lambda option, question, options: len(re.findall(r"\d", option)),
    "words of the question": lambda option, question, options: shared(option, question),
    "words of the others": lambda option, question, options: sum(shared(option, o) for o in options if o != option),
    "absolute words": lambda option, question, options: len(ABSOLUTE & set(words(option))),
    "negation": lambda option, question, options: len(
        re.findall(r"\b(?:no|not|cannot|nothing|none|never|without)\b", option.lower())
    ),
}


@FORMS
@pytest.mark.parametrize("sign", [1, -1], ids=["most", "least"])
@pytest.mark.parametrize("clue", CLUES)
def test_no_clue_of_form_finds_the_right_option(clue, sign, form):
    """Who takes the option with the most (or the least) of it gets at most 6 of 12; 3 are to be expected of a guess."""
    hits = 0
    for name in questions(form):
        options, right = of(name)
        scores = [sign * CLUES[clue](option, items()[name]["question"], options) for option in options]
        if scores[right] == max(scores):
            hits += 1 / scores.count(max(scores))
    assert hits <= 6


@FORMS
def test_the_right_option_is_not_the_longest(form):
    longest, right_ones, wrong_ones = 0, [], []
    for name in questions(form):
        options, right = of(name)
        longest += len(options[right]) == max(map(len, options))
        right_ones.append(len(options[right]))
        wrong_ones += [len(option) for at, option in enumerate(options) if at != right]
    assert longest <= 4
    mean = lambda lengths: sum(lengths) / len(lengths)
    assert mean(right_ones) == pytest.approx(mean(wrong_ones), rel=0.1)


@pytest.mark.parametrize("name", items())
def test_options_of_a_question_are_of_one_kind(name):
    options, _ = of(name)
    lengths = [len(option) for option in options]
    assert len(set(options)) == 4 and max(lengths) < 1.6 * min(lengths)
    assert all(option[0].isupper() or option[0].isdigit() for option in options)
    assert all(
        option.endswith(".") and option.count(".") - len(re.findall(r"\d\.\d", option)) == 1 for option in options
    )
    assert len({"because" in option for option in options}) == 1, "one of them gives no reason, or alone gives one"
    assert re.search(r"\b[Ww]hy\b", items()[name]["question"])


@FORMS
def test_absolute_words_and_hedges_give_nothing_away(form):
    right_words, wrong_words = set(), set()
    for name in questions(form):
        options, right = of(name)
        for at, option in enumerate(options):
            (right_words if at == right else wrong_words).update(words(option))
    assert sorted((wrong_words & ABSOLUTE) - right_words) == [], "absolute words in wrong options only"
    assert sorted((right_words & HEDGES) - wrong_words) == [], "hedges in right options only"


def test_places_are_balanced_and_a_pair_does_not_share_its_letter():
    letters = {form: [right_letter(name) for name in questions(form)] for form in "AB"}
    for form in "AB":
        assert all(letters[form].count(letter) == 3 for letter in LETTERS)
    assert all(a != b for a, b in zip(letters["A"], letters["B"], strict=True))


def test_the_forms_are_parallel():
    assert len(items()) == 24 and len(themes()) == 6
    for name in questions("A"):
        other = f"B{name[1:]}"
        assert items()[name]["belief"] == items()[other]["belief"] and items()[name]["theme"] == items()[other]["theme"]
        assert items()[name]["question"] != items()[other]["question"]
    beliefs = [items()[name]["belief"] for name in questions("A")]
    assert len(set(beliefs)) == 12 and {sum(items()[n]["theme"] == t for n in questions("A")) for t in themes()} == {2}


def test_reasons_say_something_and_the_sections_are_spread():
    options = [option for item in items().values() for option in item["options"]]
    assert all(len(option["reason"].split()) >= 8 and option["reason"].endswith(".") for option in options)
    assert len({option["reason"] for option in options}) == len(options)
    assert len({option["link"].partition("_")[0] for option in options}) >= 10, "lessons that options lead to"
    contractions = r"\b\w+n't\b|\b(?:it|that|what|there|let)'s\b"
    assert not re.search(contractions, (ROOT / inventory.SOURCE).read_text(), re.IGNORECASE)


@pytest.mark.parametrize("name", items())
def test_links_lead_to_a_heading(name):
    for option in items()[name]["options"]:
        file, _, anchor = option["link"].partition("#")
        lesson = ROOT / "lessons_src/lessons" / f"{Path(file).stem}.py"
        headings = re.findall(r"^# ##+ (.*)$", lesson.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in [heading.replace(" ", "-") for heading in headings]
        assert option["section"].replace(" ", "-") == anchor


def cells(form):
    return json.loads((ROOT / inventory.NOTEBOOKS[form]).read_text(encoding="utf-8"))["cells"]


@FORMS
def test_a_form_takes_the_minutes_that_it_says(form):
    notebook = {"cells": cells(form)}
    minutes = round(total(sections(notebook, notebook)))
    assert 12 <= minutes <= 15 and f"*About {minutes} min.*" in cells(form)[0]["source"]
    assert f"about {minutes} minutes a form" in (ROOT / "README.md").read_text(encoding="utf-8")


@FORMS
def test_neither_a_notebook_nor_a_print_tells_what_is_right(form):
    notebook = "\n".join(cell["source"] for cell in cells(form))
    for text in (notebook, printed(form)):
        for name in questions(form):
            assert items()[name]["question"] in text and items()[name]["belief"] not in text
            for option in items()[name]["options"]:
                assert option["text"] in text and option["reason"] not in text
    with_answers = printed(form, answers=True)
    assert all(option["reason"] in with_answers for name in questions(form) for option in items()[name]["options"])
    assert with_answers.count("RIGHT") == 12


# --------------------------------------------------------------------------------------------------- how it is built

TINY = """\
# Tiny

Words for who edits this.

## Theme

### 1 · a belief

**A1:** Why so?
- [ ] It is. :: It is not. :: 2.1
- [x] It is not. :: So it is. :: 2.1

**B1:** And why so?
- [x] It is not. :: So it is. :: 2.2
- [ ] It is. :: It is not. :: 2.1
"""
LESSON = "# %% [markdown]\n# # 2 · Tiny\n#\n# ## 2.1 First, of two\n#\n# ## 2.2 Second\n"
NEW = [inventory.TABLE, *inventory.NOTEBOOKS.values()]


@pytest.fixture
def tiny(tmp_path):
    root = project(tmp_path, {"02_tiny.py": LESSON})
    (root / inventory.SOURCE).write_text(TINY, encoding="utf-8")
    (root / "lessons_src/lessonkit/inventory").mkdir(parents=True)
    return root


def stale(root):
    from coursebuild.stale import stale

    return [line for line in stale(whole(root)) if "inventory" in line]


def test_a_build_writes_it_twice_alike_and_check_finds_what_changed(tiny, monkeypatch, capsys):
    monkeypatch.setattr("coursebuild.editions.build", lambda lesson: [])
    assert len(stale(tiny)) == 3
    assert command.main([], tiny) == 0 and stale(tiny) == []
    before = {name: (tiny / name).read_bytes() for name in NEW}
    for name in NEW:
        (tiny / name).unlink()
    assert command.main([], tiny) == 0 and {name: (tiny / name).read_bytes() for name in NEW} == before
    table = json.loads(before[inventory.TABLE])
    assert table["A1"]["options"][0]["link"] == "02_tiny.ipynb#2.1-First,-of-two"
    edit(tiny / "lessons_src/lessons/02_tiny.py", "First, of two", "Renamed")
    assert stale(tiny) == [f"{inventory.TABLE}: is not what {inventory.SOURCE} says"], "links follow the headings"
    edit(tiny / inventory.SOURCE, "**B1:** And", "**B1:** But")
    assert len(stale(tiny)) == 2
    assert command.main([], tiny) == 0 and stale(tiny) == []
    after = json.loads((tiny / inventory.TABLE).read_text(encoding="utf-8"))
    assert after["B1"]["edition"] != table["B1"]["edition"] and after["A1"]["edition"] == table["A1"]["edition"]
    (tiny / inventory.SOURCE).unlink()
    assert len(stale(tiny)) == 2, "its notebooks are nobody's now"


def test_a_notebook_that_was_edited_is_not_overwritten(tiny, capsys):
    inventory.write(tiny)
    path = tiny / inventory.NOTEBOOKS["A"]
    edit(path, "Why so?", "Why so, I wonder?")
    before = path.read_bytes()
    edit(tiny / inventory.SOURCE, "**A1:** Why", "**A1:** But why")
    with pytest.raises(LessonError, match="so it is not overwritten"):
        inventory.write(tiny)
    assert path.read_bytes() == before


BAD = {  # what is edited: (old, new, line, what is said)
    "no such section": ("So it is. :: 2.2", "So it is. :: 2.3", 14, "there is no section 2.3"),
    "no section": ("It is not. :: 2.1\n- [x]", "It is not.\n- [x]", 10, "is neither a heading nor"),
    "a misspelt box": (
        "- [x] It is not. :: So it is. :: 2.1",
        "- [X] It is not. :: So it is. :: 2.1",
        11,
        "is neither",
    ),
    "two right": (
        "- [ ] It is. :: It is not. :: 2.1\n- [x]",
        "- [x] It is. :: It is not. :: 2.1\n- [x]",
        9,
        "exactly one",
    ),
    "one option": ("- [ ] It is. :: It is not. :: 2.1\n- [x]", "- [x]", 9, "A1 has 1 options"),
    "a form without it": ("**B1:** And why so?\n", "", 1, "misconception 1 needs one question for form A and one for"),
    "twice": ("**B1:**", "**A1:**", 1, "misconception 1 needs one question"),
    "a wrong number": ("**B1:**", "**B2:**", 13, "B2 is below misconception 1. Call it B1."),
    "misconceptions out of order": ("### 1 ·", "### 2 ·", 7, "expected the misconception with the next number"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_source_that_would_make_a_wrong_form_is_refused(what, tiny, monkeypatch, capsys):
    monkeypatch.setattr("coursebuild.editions.build", lambda lesson: [])
    old, new, line, said = BAD[what]
    edit(tiny / inventory.SOURCE, old, new)
    if what == "a form without it":  # its options are those of A1 now
        edit(tiny / inventory.SOURCE, "\n\n- [x] It is not. :: So it is. :: 2.2\n- [ ] It is. :: It is not. :: 2.1", "")
    with pytest.raises(LessonError) as caught:
        inventory.read(tiny)
    place, _, rest = str(caught.value).partition(": ")
    assert place == f"{inventory.SOURCE}:{line}" and said in rest and rest.endswith(".")
    assert str(caught.value) in stale(tiny), "and --check says it too"
    assert command.main([], tiny) == 1 and said in capsys.readouterr().err


def test_the_course_stores_what_its_source_says():
    assert inventory.stale(ROOT) == [], "run `make notebooks`"
