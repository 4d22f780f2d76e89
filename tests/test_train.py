"""lessonkit.train: pairing, histories, and what a run does to the model, the optimizer and the random numbers."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lessonkit import train

N, D, CLASSES = 23, 6, 3
_g = torch.Generator().manual_seed(0)
X = torch.randn(N, D, generator=_g)  # (N, D)
Y = torch.randint(CLASSES, (N,), generator=_g)  # (N,)


def linear():
    return nn.Linear(D, CLASSES)


def normed():
    return nn.Sequential(nn.Linear(D, CLASSES), nn.LayerNorm(CLASSES))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def four_rows(generator):
    rows = torch.randint(N, (4,), generator=generator)
    return X[rows], Y[rows]


def compare(models=None, **changes):
    """Run train.compare on a small task with some arguments changed; a change to None leaves the argument out."""
    arguments = dict(seeds=range(2), loss=F.cross_entropy, optimizer=sgd, data=(X, Y), epochs=3, batch_size=5)
    arguments = {key: value for key, value in (arguments | changes).items() if value is not None}
    return train.compare({"linear": linear} if models is None else models, **arguments)


def in_steps(steps, **changes):
    """The same, in steps: each batch is four random rows."""
    return compare(**{"data": None, "epochs": None, "batches": four_rows, "steps": steps, **changes})


def watched(seen):
    """Return a function that makes a model, which adds (training, gradients, input) to `seen` at each forward pass."""

    def make():
        model = linear()
        look = lambda model, inputs: seen.append((model.training, torch.is_grad_enabled(), inputs[0].clone()))  # noqa: E731
        model.register_forward_pre_hook(look)
        return model

    return make


def test_runs_are_paired_across_calls_and_leave_the_global_random_numbers_alone(capfd):
    models = {"none": linear, "LayerNorm": normed}
    settings = dict(seeds=[0, 1, 2], clip=1.0, evaluate={"first weight": lambda model: next(model.parameters())[0, 0]})
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    whole, again = compare(models, **settings), compare(models, **settings)
    split = compare({"LayerNorm": normed}, **settings) | compare({"none": linear}, **settings)
    with pytest.raises(ZeroDivisionError):
        compare(evaluate={"broken": lambda model: 1 / 0})
    assert torch.equal(torch.rand(3), expected)
    for other in (again, split):
        torch.testing.assert_close(other, whole, rtol=0, atol=0)
    assert capfd.readouterr() == ("", ""), "no bar where stderr is no terminal"


def test_a_run_is_the_loop_one_would_write():
    """With batches of every example but the last three, a schedule that counts from 1, and clipping."""
    kept, seen, warm_up = [], [], lambda step: min(1, step / 4)
    models = {"linear": lambda: kept.append(watched(seen)()) or kept[0]}
    first_weight = {"first weight": lambda model: model.weight[0, 0]}
    settings = {"seeds": [3], "drop_last": True, "schedule": warm_up, "clip": 0.3, "evaluate": first_weight}
    history = compare(models, **settings)["linear"]
    batches = [batch for *_, batch in seen]
    assert [len(batch) for batch in batches] == [5] * 12 and len(torch.cat(batches[:4]).unique(dim=0)) == 20
    torch.manual_seed(3)
    model = linear()
    optimizer = sgd(model.parameters())
    losses = []
    for step, batch in enumerate(batches, 1):
        target = torch.stack([Y[torch.where((X == row).all(1))[0].item()] for row in batch])
        loss = F.cross_entropy(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.param_groups[0]["lr"] = 0.1 * warm_up(step)
        optimizer.step()
        losses.append(loss.item())
    assert torch.equal(kept[0].weight, model.weight)
    assert history["loss"].tolist() == [[sum(losses[at : at + 4]) / 4 for at in (0, 4, 8)]]
    assert history["first weight"][0, 2] == model.weight[0, 0].item() and history["step"].tolist() == [4, 8, 12]
    assert history["loss"].dtype == torch.float64 and history["diverged"].tolist() == [0]


@pytest.mark.parametrize("eval_mode", [True, False])
def test_evaluation_is_in_eval_mode_unless_it_is_forgotten_and_without_gradients(eval_mode):
    seen, output = [], lambda model: model(X).mean()
    measures = {"a": output, "calls train() itself": lambda model: output(model.train()), "b": output}
    in_steps(3, every=2, models={"watched": watched(seen)}, evaluate=measures, seeds=[0], eval_mode=eval_mode)
    # Two steps and three measures, one step and three measures; the one that calls train() does not spoil the next.
    expected = [True, True, False, True, False, True, False, True, False] if eval_mode else [True] * 9
    assert [training for training, *_ in seen] == expected
    assert [gradients for _, gradients, _ in seen] == [True, True, False, False, False, True, False, False, False]


class Exploding(nn.Linear):
    """Gives nan from its fifth training step on, with every second seed."""

    built = 0

    def __init__(self):
        super().__init__(D, CLASSES)
        self.bad, self.steps = Exploding.built % 2 == 1, 0
        Exploding.built += 1

    def forward(self, x):
        self.steps += self.training
        return super().forward(x) * (math.inf if self.bad and self.steps >= 5 else 1)


def test_a_diverging_run_is_recorded_and_stops_no_other():
    evaluate = {"weight": lambda model: model.weight[0, 0]}
    history = in_steps(8, models={"bad": Exploding, "good": linear}, seeds=range(4), every=2, evaluate=evaluate)
    assert history["bad"]["diverged"].tolist() == [0, 5, 0, 5]
    for key in ("loss", "weight"):
        assert history["bad"][key].isnan().tolist() == [[False] * 4, [False, False, True, True]] * 2
    assert history["good"]["diverged"].tolist() == [0] * 4 and history["good"]["loss"].isfinite().all()


def test_table_prints_mean_sample_deviation_range_and_n(capsys):
    runs = {
        "none": [[0, 1], [0, 2], [0, -0.001]],
        "LayerNorm": [[9, 98.04], [9, math.nan], [9, math.inf]],
        "BN": [[1, math.nan]],
    }
    step = torch.tensor([1, 2])
    train.table({name: {"accuracy": torch.tensor(rows), "step": step} for name, rows in runs.items()}, "accuracy")
    assert capsys.readouterr().out.splitlines() == [
        "accuracy: mean ± sample sd [min, max] over n seeds",
        "none       1.0 ± 1.0 [0.0, 2.0]  n = 3 (step 2)",
        "LayerNorm  98.0 ± - [98.0, 98.0]  n = 1, 2 more not finite (step 2)",
        "BN         no finite run  n = 0, 1 more not finite (step 2)",
    ]


SHARED = linear()
ERRORS = {  # what is said: the arguments
    r"models\['mlp'\] is Linear.*write lambda:": dict(models={"mlp": linear()}),
    r"\(\) is Linear.*expected a new module": dict(models={"mlp": lambda: SHARED}),
    r"seeds is 4, expected different whole numbers, like range\(4\)": dict(seeds=4),
    "batch_size is 24, expected at most 23.*drop_last=F": dict(batch_size=24, drop_last=True),
}


@pytest.mark.parametrize("message", ERRORS)
def test_bad_arguments_are_named_with_what_was_expected(message):
    with pytest.raises(ValueError, match="(?s)" + message):
        compare(**ERRORS[message])
