"""Answers to the exercises of lesson 0: lines that stand between the solution and its check, in the same cell."""

INIT = """class LayerNorm(LayerNorm):
    def __init__(self, D, eps=1e-5):
        nn.Module.__init__(self)
        self.eps, ones, zeros = eps, torch.ones(D), torch.zeros(D)
        """
FORWARD = "LayerNorm.forward = lambda self, x: "
# Begins an answer to an exercise.
STARTS = {2: "normalize = lambda x, eps: "}
LAYER = FORWARD + "normalize(x, self.eps) * self.weight + self.bias"
RIGHT = {  # {exercise: what a right answer may look like as well}
    1: [
        "",
        "x_hat = tuple(x_hat)",
        "mu, v, x_hat = torch.tensor(3.0), torch.tensor(4.0), torch.tensor(x_hat)",
    ],
    2: [
        "(x - average(x)) / torch.sqrt(population(x) + eps)",
        "(x - average(x)) * (torch.linalg.vector_norm(x - average(x), dim=-1, keepdim=True) ** 2 / x.shape[-1] + eps) ** -0.5",
        "0\nnormalize = functools.partial(lambda x, eps, p: (x - average(x)) / (population(x) + eps) ** p, p=0.5)",
    ],
    3: [INIT + "self.weight, self.bias = nn.Parameter(ones), nn.Parameter(zeros)"],
    4: ["", "dcentered, dx = tuple(dcentered), torch.tensor(dx)"],
    5: [
        "axis = -2",
        "probe = torch.randn(2, 3, 4, 16)",
        "probe = torch.randn(4, 1, 16)",
        "probe = 1000 + torch.randn(2, 3, 16)",
    ],
}
WRONG = {  # {exercise: {words of what is told: a wrong answer}}
    1: {
        "mu is D · the right one": "mu = 15",
        "v is D/(D − 1) · the right one": "v = 5",
        "x_hat is 0.25 · the centered row.": "x_hat = [0.25, -0.75, 0, 0.75, -0.25]",
        "+ 1.5 · (1, 1, 1, 1, 1)": "x_hat = [2, 0, 1.5, 3, 1]",
        "most of all at [1]": "x_hat = [0.5, 1.5, 0, 1.5, -0.5]",
        "x_hat is no list of 5 numbers yet": "x_hat = [0.5, ..., 0, 1.5, -0.5]",
    },
    2: {
        "√((D − 1)/D) · x / root −": "(x - average(x)) / (x.var(-1, keepdim=True) + eps) ** 0.5",
        "over axis (0, 1, 2)": "(x - x.mean()) / (x.var(correction=0) + eps) ** 0.5",
        "over axis 1": "(x - x.mean(1, True)) / (x.var(1, False, True) + eps) ** 0.5",
        "y is x / root². ": "x / (population(x) + eps)",
        "y is x − mean / root": "x - average(x) / (population(x) + eps) ** 0.5",
        "y is x / rms": "(x - average(x)) / (average(x * x) + eps) ** 0.5",
        "Say keepdim=True": "(x - x.mean(-1)) / (population(x) + eps) ** 0.5",
        "Does a 5": "(c := x - x.sum(-1, True) / 5) / ((c * c).sum(-1, True) / 5 + eps) ** 0.5",
        "a gradient is not": "(x - average(x).detach()) / (population(x) + eps) ** 0.5",
        "made torch.float32": "((x - average(x)) / (population(x) + eps) ** 0.5).float()",
        "of 7, 7": "(x - average(x)) / population(x) ** 0.5",
        "and 700.1": "(x - average(x)) / (average(x * x) - average(x) ** 2 + eps) ** 0.5",
        "not right, most of all": "(x - average(x)) / (population(x) ** 0.5 + eps**0.5)",
        "of our row / 1000 comes": "(x - average(x)) / (population(x) ** 0.5 + eps)",
        "with eps = 0.001": "(x - average(x)) / (population(x) + 1e-5) ** 0.5",
        "with eps = 0 comes": "(x - average(x)) / (population(x) + (eps or 1e-5)) ** 0.5",
        "number type": "(z := x.float().sub(average(x.float())), (z / (population(x.float()) + eps) ** 0.5).to(x.dtype))[1]",
        "Does the last line return it?": "None",
        "PyTorch's own layer_norm": 'getattr(F, "layer_" + "norm")(x, x.shape[-1:], eps=eps)',
        "has changed": "x.sub_(average(x)).div_((population(x) + eps) ** 0.5)",
    },
    3: {
        "it learns {}": INIT + "self.weight, self.bias = ones, zeros",
        "each an nn.Parameter": INIT
        + "self.weight, self.bias = nn.Buffer(ones), nn.Buffer(zeros)",
        "'gamma'": INIT + "self.gamma, self.beta = nn.Parameter(ones), nn.Parameter(zeros)",
        "the first gains are 1": INIT
        + "self.weight, self.bias = nn.Parameter(zeros), nn.Parameter(zeros)",
        "y is x_hat. ": FORWARD + "normalize(x, self.eps)",
        "y is x_hat · weight. ": FORWARD + "normalize(x, self.eps) * self.weight",
        "y is x_hat · weight + weight · bias": FORWARD
        + "(normalize(x, 1e-5) + self.bias) * self.weight",
        "a gradient is not": FORWARD + "normalize(x, self.eps) * self.weight.data + self.bias",
        "Is self.eps used": FORWARD + "normalize(x, 1e-5) * self.weight + self.bias",
        "made torch.float32": FORWARD
        + "(normalize(x, self.eps) * self.weight + self.bias).float()",
        "an input has changed": LAYER.replace("(x,", "(x.mul_(2),"),
        "PyTorch's own layer_norm": FORWARD
        + "F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)",
        "an nn.Module": "LayerNorm = lambda D, eps=1e-5: None",
    },
    4: {
        "dcentered is what x_hat sends. ": "dcentered = [0, 4, -2.5, 2, 4]",
        "sends − what the variance sends": "dcentered = [-0.5, 5.5, -2.5, 0.5, 4.5]",
        "most of all at [2]": "dcentered = [0.5, 2.5, 2.5, 3.5, 3.5]",
        "dcentered + 1.5 · (1, 1, 1, 1, 1)": "dx = [2, 4, -1, 5, 5]",
        "dx is dcentered. ": "dx = dcentered",
    },
    5: {
        "Take more positions": "probe, axis = torch.randn(4, 1, 16), 0",
        "what is the shape": "probe = torch.randn(64, 16)",
        "take random numbers": "probe = torch.zeros(2, 3, 16)",
        "takes (..., 16)": "probe = torch.randn(2, 3, 8)",
        "two axes at least": "probe = torch.randn(16)",
        "make it a tensor": "probe = [[1.0] * 16]",
        "LayerNorm works": "axis = -1",
        "along axis 0": "axis = 0",
    },
}
