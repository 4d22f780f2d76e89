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


def compare(models=None, **changes):
    """Run train.compare on a small task with some arguments changed; a change to None leaves the argument out."""
    arguments = dict(seeds=range(2), loss=F.cross_entropy, optimizer=sgd, data=(X, Y), epochs=3, batch_size=5)
    arguments = {key: value for key, value in (arguments | changes).items() if value is not None}
    return train.compare({"linear": linear} if models is None else models, **arguments)


def in_steps(steps, **changes):
    """The same, in steps: each batch is four random rows."""

    def batches(generator):
        rows = torch.randint(N, (4,), generator=generator)
        return X[rows], Y[rows]

    return compare(**{"data": None, "epochs": None, "batches": batches, "steps": steps, **changes})


def batches_seen(make, seeds, **changes):
    """Return the inputs of every training step, in order, with a model that makes `make()` and records what it gets."""
    seen = []

    def recording():
        model = make()
        model.register_forward_pre_hook(lambda module, args: seen.append(args[0].clone()) if module.training else None)
        return model

    compare({"recording": recording}, seeds=seeds, **changes)
    return seen


# --- pairing -------------------------------------------------------------------------------------------------------


def test_two_runs_give_identical_histories_and_calls_may_be_split():
    models = {"none": linear, "LayerNorm": normed}
    settings = dict(seeds=[0, 1, 2], clip=1.0, evaluate={"first weight": lambda model: next(model.parameters())[0, 0]})
    whole = compare(models, **settings)
    again = compare(models, **settings)
    split = {}
    for name in reversed(models):
        split |= compare({name: models[name]}, **settings)
    for other in (again, split):
        torch.testing.assert_close(other, whole, rtol=0, atol=0)
    first, second = (batches_seen(linear, [seed], epochs=1)[0] for seed in (0, 1))
    assert not torch.equal(first, second), "a seed draws its own batches"


def test_the_global_random_numbers_are_left_alone():
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    compare()
    with pytest.raises(ZeroDivisionError):
        compare(evaluate={"broken": lambda model: 1 / 0})
    assert torch.equal(torch.rand(3), expected)


# --- histories -----------------------------------------------------------------------------------------------------


def test_a_run_is_the_loop_one_would_write():
    """With batches of every example but the last three, a schedule that counts from 1, and clipping."""
    kept, warm_up = [], lambda step: min(1, step / 4)
    models = {"linear": lambda: kept.append(linear()) or kept[0]}
    settings = {"seeds": [3], "drop_last": True, "schedule": warm_up, "clip": 0.3}
    history = compare(models, **settings, evaluate={"first weight": lambda model: model.weight[0, 0]})["linear"]
    batches = batches_seen(linear, **settings)
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


# --- train() and eval() --------------------------------------------------------------------------------------------


def modes_seen(**changes):
    """Return "train" or "eval" for each forward pass, and whether each had gradients."""
    modes, gradients = [], []

    def watched():
        model = linear()
        model.register_forward_pre_hook(
            lambda module, args: (modes.append(module.training), gradients.append(torch.is_grad_enabled())) and None
        )
        return model

    def forgetful(model):
        model.train()
        return model(X).mean()

    measures = {"a": lambda model: model(X).mean(), "forgetful": forgetful, "b": lambda model: model(X).mean()}
    in_steps(3, every=2, models={"watched": watched}, evaluate=measures, seeds=[0], **changes)
    return modes, gradients


def test_training_in_train_and_evaluation_in_eval_without_gradients():
    modes, gradients = modes_seen()
    # Two steps, three measures, one step, three measures; the one that calls train() itself does not spoil the next.
    assert modes == [True, True, False, True, False, True, False, True, False]
    assert gradients == [True, True, False, False, False, True, False, False, False]
    assert modes_seen(eval_mode=False) == ([True] * 9, gradients), "forgetting eval is an option"


# --- divergence ----------------------------------------------------------------------------------------------------


class Exploding(nn.Module):
    """Gives nan from its fifth training step on, with the second seed only."""

    built = 0

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CLASSES, D))
        self.bad, self.steps = Exploding.built % 2 == 1, 0
        Exploding.built += 1

    def forward(self, x):
        self.steps += self.training
        return F.linear(x, self.weight) * (math.inf if self.bad and self.steps >= 5 else 1)


def test_a_diverging_run_is_recorded_and_stops_no_other():
    Exploding.built = 0
    evaluate = {"weight": lambda model: next(model.parameters())[0, 0]}
    history = in_steps(8, models={"bad": Exploding, "good": linear}, seeds=range(4), every=2, evaluate=evaluate)
    assert history["bad"]["diverged"].tolist() == [0, 5, 0, 5]
    for key in ("loss", "weight"):
        assert history["bad"][key].isnan().tolist() == [[False] * 4, [False, False, True, True]] * 2
    assert history["good"]["diverged"].tolist() == [0] * 4 and history["good"]["loss"].isfinite().all()


# --- table ---------------------------------------------------------------------------------------------------------


def columns(*rows):
    numbers = torch.tensor(rows, dtype=torch.float64)
    return {
        "accuracy": numbers,
        "diverged": torch.zeros(len(rows)).long(),
        "step": torch.arange(1, numbers.shape[1] + 1),
    }


def test_table_prints_mean_sample_deviation_range_and_n(capsys):
    history = {
        "none": columns([0.0, 1.0], [0.0, 2.0], [0.0, 6.0]),
        "LayerNorm": columns([9.0, 98.04], [9.0, math.nan], [9.0, math.inf]),
        "BN": columns([1.0, math.nan]),
    }
    assert train.table(history, "accuracy") is None
    assert capsys.readouterr().out.splitlines() == [
        "accuracy: mean ± sample sd [min, max] over n seeds",
        "none       3.0 ± 2.6 [1.0, 6.0]  n = 3 (step 2)",
        "LayerNorm  98.0 ± - [98.0, 98.0]  n = 1, 2 more not finite (step 2)",
        "BN         no finite run  n = 0, 1 more not finite (step 2)",
    ]
    train.table({"a": columns([7, -0.0001], [7, -0.0002])}, "accuracy", digits=3)
    assert capsys.readouterr().out.splitlines()[1] == "a  0.000 ± 0.000 [0.000, 0.000]  n = 2 (step 2)"


# --- errors --------------------------------------------------------------------------------------------------------

SHARED = linear()
ERRORS = {  # what is said: the arguments
    r"models\['mlp'\] is Linear.*write lambda:": dict(models={"mlp": linear()}),
    r"models\['mlp'\]\(\) is None.*Does its function return": dict(models={"mlp": lambda: None}),
    r"models\['mlp'\]\(\) is ReLU\(\), expected a module with param": dict(models={"mlp": nn.ReLU}),
    "is 'an old model', expected a new one": dict(models={"mlp": lambda: SHARED}),
    r"seeds is 4, expected different whole numbers, like range\(4\)": dict(seeds=4),
    r"seeds is \[1, 2, 1\], expected different": dict(seeds=[1, 2, 1]),
    r"source of batches is \['data', 'epochs', 'steps'\], expected data and epochs, or": dict(steps=3),
    "epochs is 0, expected a whole number, at least 1": dict(epochs=0),
    "batch_size is 24, expected at most 23.*drop_last=F": dict(batch_size=24, drop_last=True),
    r"evaluate\['acc'\]\(model\) is None, expected": dict(evaluate={"acc": lambda m: None}),
}


@pytest.mark.parametrize("message", ERRORS)
def test_bad_arguments_are_named_with_what_was_expected(message):
    with pytest.raises(ValueError, match="(?s)" + message):
        compare(**ERRORS[message])


# --- progress ------------------------------------------------------------------------------------------------------


def test_nothing_on_stderr_where_it_is_no_terminal(capfd):
    compare()
    assert capfd.readouterr() == ("", "")
