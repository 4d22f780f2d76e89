"""The LayerNorm inventory: what can be computed of its questions is true, and none is answered by its form."""

import json
import math
import re
from collections import Counter
from itertools import pairwise

import nbformat
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from coursebuild import generated, inventory
from coursebuild.source import LessonError
from lessonkit import course, data, train
from lessonkit.inventory.__main__ import printed
from lessonkit.inventory.questions import LETTERS, items, questions, right_letter, themes
from tests.helpers import ROOT, draw, the_course
from tests.toy import edit, project, refused, whole

FORMS = pytest.mark.parametrize("form", ["A", "B"])


def norm(x, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def gradient(function, x):
    """Return the gradient of a scalar function at x."""
    return torch.func.grad(function)(x)


# -------------------------------------------------------------------------------------------- the claims, computed


def a1_one_row_does_not_see_another():
    x = draw(1, 8, 100, 64)
    changed = x.clone()
    changed[2, 90] += 3
    moved = (norm(x) != norm(changed)).any(-1).nonzero()
    assert moved.tolist() == [[2, 90]]


def b1_padding_does_not_count():
    words = draw(2, 1, 40, 64, mean=1.0)
    short, long = (F.pad(words, (0, 0, 0, many)) for many in (10, 60))
    assert torch.equal(norm(short)[:, :40], norm(long)[:, :40])
    assert not torch.allclose(F.layer_norm(short, (50, 64))[:, :40], F.layer_norm(long, (100, 64))[:, :40])


def a2_an_outlier_raises_its_own_divisor():
    others = norm(draw(3, 399), eps=0)
    row = torch.cat([others, others.new_tensor([30])])
    assert 16.5 < norm(row)[-1] < 17.5 and row.std(correction=0).item() == pytest.approx(1.8, abs=0.05)
    most = norm(F.one_hot(torch.tensor(0), 400).double(), eps=0).max()
    assert most.item() == pytest.approx(20, abs=0.05)


def b2_two_values_stay_two_values():
    row = torch.where(torch.arange(500) % 5 == 0, 10.0, 0.0).double()
    y = norm(row, eps=0)
    torch.testing.assert_close(y, torch.where(row == 10, 2.0, -0.5).double())
    assert (row.mean(), row.std(correction=0)) == pytest.approx((2, 4))


def a3_epsilon_counts_on_rows_of_small_variance():
    x, apart = norm(draw(5, 512), eps=0), {}
    for variance in (1.0, 1e-5, 1e-7):
        two = [norm(x * math.sqrt(variance), eps=eps).std() for eps in (1e-12, 1e-5)]
        apart[variance] = (two[0] / two[1]).item()
    assert apart[1.0] < 1.0001 and apart[1e-7] > 10
    assert apart[1e-5] == pytest.approx(math.sqrt(2), rel=1e-6)
    assert torch.equal(norm(torch.ones(8), eps=1e-12), norm(torch.ones(8))), "constant rows are alike"


def b3_a_small_row_leaves_with_seven_tenths():
    y = norm(0.003 * norm(draw(6, 512), eps=0))
    assert y.std(correction=0).item() == pytest.approx(math.sqrt(9 / 19), rel=1e-6)


def one_pass(x):
    return (x**2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2


def lost(rows, variance):
    """Return the median relative error of a variance of rows (B, D), against float64."""
    right = rows.double().var(-1, correction=0, keepdim=True)
    return ((variance - right) / right).abs().median()


def a4_steps_of_float32_are_as_large_as_the_variance():
    rows, square = draw(7, 1000, 512, mean=4000.0).float(), torch.tensor(4000.0) ** 2
    assert torch.nextafter(square, square + 100) - square == 1
    assert lost(rows, one_pass(rows)) > 0.4 and lost(rows, rows.var(-1, correction=0, keepdim=True)) < 1e-3


def b4_a_shift_repairs_it():
    kelvin = draw(7, 1000, 512, scale=0.01, mean=300.0).float()
    assert -0.015625 in one_pass(kelvin), "the −0.016 of the question"
    assert lost(kelvin, one_pass(kelvin - 300)) < 1e-5
    for variance in (one_pass(kelvin / 300) * 300**2, one_pass(kelvin).clamp(min=0)):
        assert lost(kelvin, variance) > 0.9


def a5_gain_and_bias_come_too_late():
    x, gain, bias = draw(8, 16), draw(9, 16), draw(10, 16)
    torch.testing.assert_close(norm(3 * x - 1, eps=0) * gain + bias, norm(x, eps=0) * gain + bias)


def b5_what_undoes_the_norm_for_one_row_fits_no_other():
    x = draw(13, 16, mean=2.0)
    gain, bias = x.std(correction=0), x.mean()
    torch.testing.assert_close(norm(x, eps=0) * gain + bias, x)
    torch.testing.assert_close(norm(2 * x, eps=0) * gain + bias, x)


def rms(x):
    return F.rms_norm(x, x.shape[-1:], eps=1e-5)


def a6_rmsnorm_divides_the_row_as_it_is():
    x = 3 + 4 * norm(draw(14, 256), eps=0)
    y = rms(x)
    assert (y.mean(), y.std(correction=0)) == pytest.approx((0.6, 0.8), abs=1e-5)
    assert (norm(x) - y).abs().max() > 0.5


def b6_rmsnorm_keeps_what_entries_share():
    x = 100 + 2 * torch.rand(64, 256, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1
    assert (rms(x) - 1).abs().max() < 0.02 and norm(x).mean(-1).abs().max() < 1e-9


def a7_weights_that_sum_to_0():
    weights, values = norm(draw(16, 5)), draw(17, 5, 3)
    torch.testing.assert_close(weights @ (values + 10), weights @ values)
    shares = draw(16, 5).softmax(0)
    torch.testing.assert_close(shares @ (values + 10), shares @ values + 10)
    assert weights.min() < 0


def b7_equal_frames_are_pooled_to_0():
    frames = draw(18, 3).expand(20, 3)
    for scores in (draw(4, 20), torch.linspace(-1, 2, 20).double()):  # those of a place differ from place to place
        weights = norm(scores)
        torch.testing.assert_close(weights @ frames, torch.zeros(3).double())
        torch.testing.assert_close(scores.softmax(0) @ frames, frames[0])


def a8_nothing_is_stored():
    dark, image = draw(19, 1000, 16, scale=0.3, mean=-1.0), draw(11, 1, 16)
    for layer, moves in ((nn.BatchNorm1d(16), True), (nn.LayerNorm(16), False)):
        before = layer.double().eval()(image)
        layer.train()(dark)
        assert torch.equal(layer.eval()(image), before) is not moves and bool(list(layer.buffers())) is moves


def b8_an_image_depends_on_itself_alone():
    images = draw(20, 32, 6, 4, 4)
    for layer, alone in ((nn.BatchNorm2d(6), False), (nn.LayerNorm((6, 4, 4)), True)):
        by_itself, among = layer.double().train()(images[:1])[0], layer(images)[0]
        assert torch.allclose(by_itself, among) is alone and torch.allclose(layer.eval()(images)[0], among) is alone


def gradients(x, upstream):
    """Return the gradients of a row where autograd treats as constants: nothing, the mean, the deviation, both."""
    slopes = []
    for constants in ("", "mean", "deviation", "mean and deviation"):
        x = x.detach().requires_grad_()
        mean, deviation = x.mean(), x.std(correction=0)
        mean = mean.detach() if "mean" in constants else mean
        deviation = deviation.detach() if "deviation" in constants else deviation
        slopes += torch.autograd.grad((x - mean) / deviation, x, upstream)
    return slopes


def a9_the_short_gradient_has_two_directions_too_many():
    x, h = draw(22, 12), draw(23, 12) * draw(24, 12)
    true, _, _, short = gradients(x, h)
    torch.testing.assert_close(short, h / x.std(correction=0))
    for direction in (torch.ones(12).double(), norm(x, eps=0)):  # a shift of the row, and a stretch
        assert (true @ direction).abs() < 1e-10 < 0.1 < (short @ direction).abs()
        torch.testing.assert_close(norm(x + direction, eps=0), norm(x, eps=0))


def b9_equal_gradients_come_to_0():
    x, c = draw(25, 12, mean=2.0), torch.full((12,), 1.7).double()
    straight, nothing = c / x.std(correction=0), torch.zeros(12).double()
    for slope, expected in zip(gradients(x, c), (nothing, straight, nothing, straight), strict=True):
        torch.testing.assert_close(slope, expected)
    assert all(norm(draw(seed, 12), eps=0).sum().abs() < 1e-12 for seed in range(5)), "the sum is the same for each x"


def loss_of(weight):
    return F.cross_entropy(norm(draw(27, 20, 8) @ weight.T, eps=0), torch.arange(20) % 6)


def a10_larger_weights_get_smaller_gradients(factor=10):
    weight = draw(28, 6, 8)
    torch.testing.assert_close(loss_of(factor * weight), loss_of(weight))
    torch.testing.assert_close(gradient(loss_of, factor * weight), gradient(loss_of, weight) / factor)


def b10_shorter_weights_get_larger_gradients():
    a10_larger_weights_get_smaller_gradients(1 / 2)
    weight = draw(28, 6, 8)
    step = 0.01 * gradient(loss_of, weight)
    turn = lambda weight, step: F.cosine_similarity((weight - step).flatten(), weight.flatten(), 0).acos().item()
    assert turn(weight / 2, step) == pytest.approx(2 * turn(weight, step), rel=0.01), "an equal step turns them more"


def rates():
    """Return {net: accuracies (3 rates, 16 runs)} of the record of lesson 9."""
    record = json.loads((ROOT / "data/runs/cnn_learning_rates.json").read_text())
    assert record["arguments"] == {"rates": [0.1, 0.3, 1.0]}
    return {name: torch.tensor([run[name] for run in record["results"]]).view(3, 16) for name in record["results"][0]}


def a11_a_control_needs_its_own_rate():
    plain, normed = rates()["no norm"], rates()["LayerNorm"]
    assert (normed[1] - plain[1]).max() > 80, "at a rate that is too large for some runs of the plain net"
    assert plain[2].max() < 15, "and at one that is too large for all of them, more seeds show the same again"
    assert (normed[0] - plain[0]).mean() < 2, "at a rate that suits it"
    best = [net.mean(1).max().item() for net in (plain, normed)]
    assert abs(best[1] - best[0]) < 2 and plain[1:].mean(1).max() < best[0], "and each at the best of several rates"


def reader(norm):
    """Return a net for the digits: three layers of 32, Kaiming's weights, LayerNorm before each ReLU where norm is."""
    layers = []
    for D, width in pairwise([64, 32, 32, 32, 10]):
        layers += [nn.Linear(D, width), *[nn.LayerNorm(width, elementwise_affine=False)] * norm, nn.ReLU()]
        nn.init.kaiming_normal_(layers[-2 - norm].weight, nonlinearity="relu")
        nn.init.zeros_(layers[-2 - norm].bias)
    return nn.Sequential(nn.Flatten(), *layers[: -1 - norm])


def digits_read(rate):
    """Return {net: test accuracies (16,) in percent}, by SGD whose rate falls to 0."""
    digits = data.digits_split(0)
    right = lambda net: 100 * (net(digits.x_test).argmax(-1) == digits.y_test).double().mean()
    history = train.compare(
        {"plain": lambda: reader(False), "normed": lambda: reader(True)},
        seeds=range(16, 32),
        loss=F.cross_entropy,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=rate),
        schedule=lambda step: 1 - (step - 1) / 120,
        data=(digits.x_train, digits.y_train),
        epochs=6,
        drop_last=True,
        evaluate={"accuracy": right},
    )
    return {name: run["accuracy"][:, -1].nan_to_num(10) for name, run in history.items()}


def b11_room_for_larger_rates():
    small, large = digits_read(0.4), digits_read(1.6)
    # six times 16 seeds: means of 95.9 to 97.1, those at 0.4 less than a point apart; single runs at 1.6 from 94 on
    # with a norm. Without one they differ between processors, up to 92
    ends = (small["plain"], small["normed"], large["normed"])
    assert all(95.5 < accuracies.mean() < 97.5 for accuracies in ends) and large["normed"].min() > 90
    assert large["plain"].mean() < 50 and (large["normed"].mean() - large["plain"].mean()) > 40
    assert abs((small["normed"] - small["plain"]).mean()) < 1


def a12_a_norm_after_the_loop():
    recurrent, x = 1.5 * torch.eye(4).double(), draw(29, 4).abs()

    def states(inside):
        h = [torch.zeros(4).double()]
        for _ in range(2000):
            h.append(inside(recurrent @ h[-1] + x).relu())
        return torch.stack(h)

    plain = states(lambda z: z)
    assert not plain[-1].isfinite().all() and not norm(plain)[-1].isfinite().all()
    assert states(norm).isfinite().all()


def b12_the_stream_passes_by():
    x, head, stream, outputs = draw(30, 256, 64), draw(32, 64, 10, scale=1 / 8), [], []
    for block in range(32):
        x = x + norm(x) @ draw(100 + block, 64, 64, scale=1 / 8)
        stream.append(x.square().mean().item())
        outputs.append((x @ head).square().mean().sqrt().item())
    assert (stream[1], stream[31]) == pytest.approx((3, 33), rel=0.15)
    assert outputs[31] / outputs[1] == pytest.approx(11**0.5, rel=0.15) == pytest.approx(3, rel=0.15)


# {"A1": the function whose name begins with a1}
CLAIMS = {name.partition("_")[0].upper(): value for name, value in globals().items() if re.match(r"[ab]\d", name)}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.trains) if n == "B11" else n for n in items()])
def test_what_a_question_claims_is_so(name):
    CLAIMS[name]()


# ------------------------------------------------------------------------------------- no answer by the form alone

ABSOLUTE = set("always never only all every any none no nothing everything must cannot impossible exactly just".split())
PLAIN = set("the a an it its of and in to is are as that because with by at on not or this these they from for".split())


def words(text):
    return re.findall(r"[\w./²−-]*\w", text.lower())


def of(name):
    """Return (the texts of a question's options, which of them is right)."""
    options = items()[name]["options"]
    return [option["text"] for option in options], [option["right"] for option in options].index(True)


def shared(text, other):
    return len((set(words(text)) - PLAIN) & set(words(other)))


def clues(option, question, options):
    """Return {what somebody who knows nothing may look at: a number}."""
    verdict = option.partition(",")[0]
    return {
        "length": len(option),
        "long words": sum(map(len, words(option))) / len(words(option)),
        "first half": len(verdict),
        "options with its verdict": sum(other.partition(",")[0] == verdict for other in options),
        "digits": len(re.findall(r"\d", option)),
        "words of the question": shared(option, question),
        "words of the others": sum(shared(option, other) for other in options if other != option),
        "absolute words": len(ABSOLUTE & set(words(option))),
        "negation": len(re.findall(r"\b(?:no|not|cannot|nothing|none|never|without)\b", option.lower())),
    }


@FORMS
@pytest.mark.parametrize("sign", [1, -1], ids=["most", "least"])
def test_no_clue_of_form_finds_the_right_option(sign, form):
    """Who takes the option with the most (or the least) of it gets at most 6 of 12; 3 are to be expected of a guess."""
    hits = Counter()
    for name in questions(form):
        options, right = of(name)
        numbers = [clues(option, items()[name]["question"], options) for option in options]
        for clue in numbers[0]:
            scores = [sign * row[clue] for row in numbers]
            if scores[right] == max(scores):
                hits[clue] += 1 / scores.count(max(scores))
    assert max(hits.values()) <= 6, hits


def test_places_are_balanced_and_a_pair_does_not_share_its_letter():
    letters = {form: [right_letter(name) for name in questions(form)] for form in "AB"}
    for form in "AB":
        counts = [letters[form].count(letter) for letter in LETTERS]
        assert all(2 <= count <= 4 for count in counts) and set(counts) != {3}, "who counts the letters learns nothing"
    assert all(a != b for a, b in zip(letters["A"], letters["B"], strict=True))


def test_the_forms_are_parallel():
    beliefs = [items()[name]["belief"] for name in questions("A")]
    assert [items()[name]["belief"] for name in questions("B")] == beliefs and len(set(beliefs)) == 12
    assert {sum(items()[n]["theme"] == t for n in questions("A")) for t in themes()} == {2}
    assert len({item["question"] for item in items().values()}) == 24


def cells(form):
    return json.loads((ROOT / inventory.NOTEBOOKS[form]).read_text(encoding="utf-8"))["cells"]


@FORMS
def test_a_form_takes_the_minutes_that_it_says(form):
    minutes = round(inventory._minutes(nbformat.read(ROOT / inventory.NOTEBOOKS[form], as_version=4)))
    assert 15 <= minutes <= 20 and f"*About {minutes} min.*" in cells(form)[0]["source"]
    assert f"about {minutes} minutes a form" in (ROOT / "GUIDE.md").read_text(encoding="utf-8")


def test_no_two_sections_share_a_title():
    """So inventory.md names a section by its title."""
    sections = [section for lesson in course.lessons().values() for section in lesson.sections]
    titles = [section.title for section in sections if re.fullmatch(r"\d+\.\d+", section.key)]
    assert len(set(titles)) == len(titles) > 50


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
- [ ] It is. :: It is not. :: First, of two
- [x] It is not. :: So it is. :: First, of two

**B1:** And why so?
- [x] It is not. :: So it is. :: Second
- [ ] It is. :: It is not. :: First, of two
"""
LESSON = "# %% [markdown]\n# # 2 · Tiny\n#\n# ## 2.1 First, of two\n#\n# ## 2.2 Second\n"


@pytest.fixture
def tiny(tmp_path):
    root = project(tmp_path, {"02_tiny": LESSON})
    (root / inventory.SOURCE).write_text(TINY, encoding="utf-8")
    (root / "lessons_src/lessonkit/inventory").mkdir(parents=True)
    return root


def stale(root):
    """Return what is stale of the inventory, a line each, and what is wrong with it."""
    course = whole(root)
    found = {path.relative_to(root).as_posix(): why for path, why in generated.wrong(course).items()}
    lines = [f"{path}: {why}" for path, why in found.items() if "inventory" in path]
    return lines + [str(error) for error in course.errors]


def test_a_build_writes_it_and_check_finds_what_changed(tiny):
    table = lambda: json.loads((tiny / inventory.TABLE).read_text(encoding="utf-8"))
    assert len(stale(tiny)) == 3
    generated.write(whole(tiny))
    before = table()
    assert stale(tiny) == [] and before["A1"]["options"][0]["link"] == "02_tiny.ipynb#2.1-First,-of-two"
    edit(tiny / "lessons_src/lessons/02_tiny/lesson.py", "## 2.2 Second", "## 2.2 New\n#\n# ## 2.3 Second")
    assert [line.partition(":")[0] for line in stale(tiny)] == [inventory.TABLE], "links follow the numbers"
    edit(tiny / inventory.SOURCE, "**B1:** And", "**B1:** But")
    generated.write(whole(tiny))
    editions = [[form["B1"]["edition"], form["A1"]["edition"]] for form in (before, table())]
    assert editions[0][0] != editions[1][0] and editions[0][1] == editions[1][1]
    (tiny / inventory.SOURCE).unlink()
    assert len(stale(tiny)) == 2, "its notebooks are nobody's now"


def test_a_notebook_that_was_edited_is_not_overwritten(tiny):
    generated.write(whole(tiny))
    path = tiny / inventory.NOTEBOOKS["A"]
    edit(path, "Why so?", "Why so, I wonder?")
    before = path.read_bytes()
    edit(tiny / inventory.SOURCE, "**A1:** Why", "**A1:** But why")
    with pytest.raises(LessonError, match="so it is not overwritten"):
        generated.write(whole(tiny))
    assert path.read_bytes() == before


BAD = {  # what is edited: (old, new, line, what is said)
    "no such section": ("So it is. :: Second", "So it is. :: Third", 14, "no section of the lessons is called 'Third'"),
    "no section": ("It is not. :: First, of two\n- [x]", "It is not.\n- [x]", 10, "is neither a heading nor"),
    "two right": (
        "- [ ] It is. :: It is not. :: First, of two\n-",
        "- [x] It is. :: No. :: Second\n-",
        9,
        "exactly one",
    ),
    "twice": ("**B1:**", "**A1:**", 1, "misconception 1 needs one question"),
    "a wrong number": ("**B1:**", "**B2:**", 13, "B2 is below misconception 1. Call it B1."),
    "misconceptions out of order": ("### 1 ·", "### 2 ·", 7, "expected the misconception with the next number"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_source_that_would_make_a_wrong_form_is_refused(what, tiny):
    old, new, line, message = BAD[what]
    edit(tiny / inventory.SOURCE, old, new)
    refused(lambda: inventory.read(tiny), line, message, "", inventory.SOURCE)
    assert any(message in reason for reason in stale(tiny)), "and --check says it too"


def test_the_course_stores_what_its_sources_say():
    """The inventory, and all else that is made without a kernel: fromscratch and what the kit knows of each lesson."""
    course = the_course()
    assert generated.wrong_files(course, generated.files(course)) == {}, "run `make notebooks`"
