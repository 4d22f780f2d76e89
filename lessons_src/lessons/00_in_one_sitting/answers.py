"""Answers to the exercises of lesson 0: lines that stand between the solution and its check, in the same cell."""

INIT = """class LayerNorm(LayerNorm):
    def __init__(self, D, eps=1e-5):
        nn.Module.__init__(self)
        self.eps, ones, zeros = eps, torch.ones(D), torch.zeros(D)
        """
FORWARD = "LayerNorm.forward = lambda self, x: "
# Begins an answer to an exercise.
STARTS = {2: "normalize = lambda x, eps: ", 5: "layer_norm_dx = lambda dy, n, r, w: "}
RIGHT = {  # {exercise: what a right answer may look like as well}
    1: [
        "",
        "x_hat = tuple(x_hat)",
        "mean, var, x_hat = torch.tensor(3.0), torch.tensor(4.0), torch.tensor(x_hat)",
    ],
    2: [
        "(x - average(x)) / torch.sqrt(population(x) + eps)",
        "(x - average(x)) / (average(x * x) - average(x) ** 2 + eps) ** 0.5",
    ],
    3: [INIT + "self.weight, self.bias = nn.Parameter(ones), nn.Parameter(zeros)"],
    4: ["", "dcentered, dmean, dx = tuple(dcentered), torch.tensor(dmean), torch.tensor(dx)"],
    5: [
        "r * (h := dy * w) - r * average(h) - r * n * average(h * n)",
        "r * (dy.mul_(w) - average(dy) - n * average(dy * n))",
    ],
    6: [
        "axis = -2",
        "probe = torch.randn(2, 3, 4, 16)",
        "probe = torch.randn(4, 1, 16)",
        "probe = 1000 + torch.randn(2, 3, 16)",
    ],
}
WRONG = {  # {exercise: {words of what is told: a wrong answer}}
    1: {
        "15 is the sum": "mean = 15",
        "The entry 0 counts": "mean = 3.75",
        "torch.var": "var = 5",
        "The variance is their mean": "var = 20",
        "the standard deviation": "var = 2",
        "Subtract the mean": "var = 13",
        "the centered row so far": "x_hat = [1, -3, 0, 3, -1]",
        "not by its root": "x_hat = [0.25, -0.75, 0, 0.75, -0.25]",
        "was not centered": "x_hat = [2, 0, 1.5, 3, 1]",
        "entry 1": "x_hat = [0.5, 1.5, 0, 1.5, -0.5]",
        "x_hat is no list of 5 numbers yet": "x_hat = [0.5, ..., 0, 1.5, -0.5]",
    },
    2: {
        "correction=0": "(x - average(x)) / (x.var(-1, keepdim=True) + eps) ** 0.5",
        "all rows share": "(x - x.mean()) / (x.var(correction=0) + eps) ** 0.5",
        "over axis 0": "(x - x.mean(0)) / (x.var(0, correction=0) + eps) ** 0.5",
        "not by its root": "(x - average(x)) / (population(x) + eps)",
        "not centered": "x / (population(x) + eps) ** 0.5",
        "still give nan": "(x - average(x)) / population(x) ** 0.5",
        "eps is added to the root": "(x - average(x)) / (population(x) ** 0.5 + eps)",
        "not the one": "(x - average(x)) / (population(x) + 1e-5) ** 0.5",
        "Does the last line return it?": "None",
        "is what you build": "F.layer_norm(x, x.shape[-1:], eps=eps)",
        "those of x": "(x - average(x)) / (average(x * x) + eps) ** 0.5",
        "has changed": "x.sub_(average(x)).div_((population(x) + eps) ** 0.5)",
        "Our row becomes": "(average(x) - x) / (population(x) + eps) ** 0.5",
        "alone is right": "(c := x - average(x)) / ((c * c).mean() + eps) ** 0.5",
        "wrong at the shape (2, 3, 4)": "(x - x.mean(1, True)) / (x.var(1, False, True) + eps) ** 0.5",
    },
    3: {
        "its state_dict is empty": INIT + "self.weight, self.bias = ones, zeros",
        "Is each an nn.Parameter": INIT
        + "self.weight, self.bias = nn.Buffer(ones), nn.Buffer(zeros)",
        "'gamma'": INIT + "self.gamma, self.beta = nn.Parameter(ones), nn.Parameter(zeros)",
        "(1,)": INIT + "self.weight, self.bias = nn.Parameter(ones[:1]), nn.Parameter(zeros)",
        "the first gains are 1": INIT
        + "self.weight, self.bias = nn.Parameter(zeros), nn.Parameter(zeros)",
        "are not used": FORWARD + "normalize(x, self.eps)",
        "the gain is not multiplied": FORWARD + "normalize(x, self.eps) + self.bias",
        "the bias is not added": FORWARD + "normalize(x, self.eps) * self.weight",
        "first the gain": FORWARD + "(normalize(x, 1e-5) + self.bias) * self.weight",
        "the gradient of x is off": FORWARD + "(x - average(x).detach()) "
        "/ (population(x).detach() + self.eps) ** 0.5 * self.weight + self.bias",
        "y is off": FORWARD + "(x - average(x)) "
        "/ (x.var(-1, keepdim=True) + self.eps) ** 0.5 * self.weight + self.bias",
        "small numbers differ": FORWARD + "(x - average(x)) "
        "/ (population(x) ** 0.5 + self.eps) * self.weight + self.bias",
        "the eps that": FORWARD + "normalize(x, 1e-5) * self.weight + self.bias",
        "Does its last line return y?": FORWARD + "None",
        "an nn.Module": "LayerNorm = lambda D, eps=1e-5: None",
    },
    4: {
        "what x_hat sends so far": "dcentered = [0, 4, -2.5, 2, 4]",
        "what rstd sends so far": "dcentered = [0.5, -1.5, 0, 1.5, -0.5]",
        "wrong sign": "dcentered = [-0.5, 5.5, -2.5, 0.5, 4.5]",
        "multiplied by the ½": "dcentered = [0.5, 6.5, -5, 5.5, 7.5]",
        "entry 2": "dcentered = [0.5, 2.5, 2.5, 3.5, 3.5]",
        "turns the sign": "dmean = 7.5",
        "a sum over five arrows": "dmean = -1.5",
        "what mean sends as well": "dx = dcentered",
        "stands 1/5": "dx = [-7, -5, -10, -4, -4]",
        "dcentered plus dmean / 5": "dx = [-1, 1, 4, 2, 2]",
    },
    5: {
        "where h belongs": "r * (dy - average(dy) - n * average(dy * n))",
        "multiplied last": "w * r * (dy - average(dy) - n * average(dy * n))",
        "path through the mean": "r * ((h := dy * w) - n * average(h * n))",
        "nothing comes through rstd": "r * ((h := dy * w) - average(h))",
        "brackets": "r * (h := dy * w) - average(h) - n * average(h * n)",
        "factor rstd": "(h := dy * w) - average(h) - n * average(h * n)",
        "last sign": "r * ((h := dy * w) - average(h) + n * average(h * n))",
        "dy stands first": "r * (dy - average(h := dy * w) - n * average(h * n))",
        "x_hat before": "r * ((h := dy * w) - average(h) - average(h * n))",
        "over all rows": "r * ((h := dy * w) - h.mean() - n * (h * n).mean())",
        "alone is right": "r * ((h := dy * w) - h.mean() - n * average(h * n))",
        "(2, 3, 7). Our row alone": "r * ((h := dy * w) - h.mean(1, True) - n * (h * n).mean(1, True))",
        "Does the last line return it?": "None",
        "is what you replace": "torch.autograd.grad(n, n, dy)[0]",
    },
    6: {
        "Take more positions": "probe, axis = torch.randn(4, 1, 16), 0",
        "what is the shape": "probe = torch.randn(64, 16)",
        "take random numbers": "probe = torch.zeros(2, 3, 16)",
        "takes (..., 16)": "probe = torch.randn(2, 3, 8)",
        "two axes at least": "probe = torch.randn(16)",
        "make it a tensor": "probe = [[1.0] * 16]",
        "LayerNorm works": "axis = -1",
        "along axis 0": "axis = 0",
        "no axis 3": "axis = 3",
    },
}
