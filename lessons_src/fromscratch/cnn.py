"""What lesson 9 builds: conv_output_shape, digit_cnn, kaiming, learn, mlp, pulled.

Made by coursebuild from lessons_src/lessons/09_cnn/lesson.py: edit the lesson, not this file.
"""

from torch import nn
from torch.nn import functional as F
import math
import torch


# Makes the net.
def digit_cnn(norm=None, side=8):
    """Six 3 x 3 convolutions, each with norm(C, H, W) and ReLU, and a linear layer."""
    layers, channels = [], 1
    for depth in range(6):
        H = side if depth < 3 else side // 2
        layers += [nn.Conv2d(channels, 16, 3, padding=1)]
        layers += [norm(16, H, H), nn.ReLU()] if norm else [nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if depth in (2, 5) else []
        channels = 16
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * (side // 4) ** 2, 10))


def learn(net, digits, rate=0.05, batch_size=64, seed=0, epochs=6, optimizer=torch.optim.SGD):
    """Train a net, its rate falling to 0; return the percent it reads after each epoch."""
    x, y = digits.x_train[:, None], digits.y_train  # (N, 1, 8, 8), (N,)
    optimizer = optimizer(net.parameters(), lr=rate, fused=True)  # fused: the same, faster
    steps = epochs * math.ceil(len(x) / batch_size)
    fall = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    g, percent = torch.Generator().manual_seed(1_000_000 + seed), []
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=g).split(batch_size):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
            fall.step()
        net.eval()
        right = net(digits.x_test[:, None]).argmax(-1) == digits.y_test  # (500,)
        percent.append(100 * right.double().mean().item())
        net.train()
    return percent


# Gives a net Kaiming's first weights.
def kaiming(net):
    """Give all convolutions and linear layers Kaiming's weights and zero biases; return net."""
    for layer in net:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return net


# Trains the net without a norm, with six levers.
def pulled(
    digits, weights=1, biases=1, pictures=1, first_rate=1, last_rate=1, adam=False, seed=0
):
    """Percent of the test digits that the net without a norm reads after ten epochs.

    weights, biases: factors on the first numbers of all convolutions. pictures: on the images.
    first_rate, last_rate: on the rate of the first three and of the last four layers, 0.05.
    adam: Adam at a rate of 0.001 in the place of SGD.
    """
    torch.manual_seed(seed)
    net = digit_cnn()
    convolutions = [layer for layer in net if isinstance(layer, nn.Conv2d)]
    with torch.no_grad():
        for layer in convolutions:
            layer.weight *= weights
            layer.bias *= biases
    rule, rate = (torch.optim.Adam, 0.001) if adam else (torch.optim.SGD, 0.05)
    groups = [
        {"params": [p for layer in layers for p in layer.parameters()], "lr": rate * factor}
        for layers, factor in (
            (convolutions[:3], first_rate),
            ([*convolutions[3:], net[-1]], last_rate),
        )
    ]
    shown = {"x_train": pictures * digits.x_train, "x_test": pictures * digits.x_test}
    chosen = lambda *_, **__: rule(groups, fused=True)
    return learn(net, digits._replace(**shown), seed=seed, epochs=10, optimizer=chosen)[-1]


# Computes the size, for each axis.
def conv_output_shape(size, kernel_size, stride=1, padding=0, dilation=1):
    """Return the size of what a convolution makes of an image, as a tuple.

    size: (H, W), or the sizes of any number of axes. The others: as in nn.Conv2d, a whole
    number for all axes or a tuple of one for each. Max pooling follows the same rule, but
    for its ceil_mode. Raises ValueError where the kernel does not fit.
    """
    shape = []
    for axis, L in enumerate(size):
        k, s, p, d = (
            setting[axis] if isinstance(setting, (tuple, list)) else setting
            for setting in (kernel_size, stride, padding, dilation)
        )
        reach = d * (k - 1) + 1
        if reach > L + 2 * p:
            raise ValueError(f"the kernel does not fit: {reach} pixels in {L} + 2 * {p}.")
        shape.append((L + 2 * p - reach) // s + 1)
    return tuple(shape)


# Makes a net of linear layers.
def mlp(norm=None):
    """Three layers of 64 units, each with norm(64) before its ReLU, and a linear layer."""
    layers = [nn.Flatten()]
    for _ in range(3):
        layers += [nn.Linear(64, 64), *([norm(64)] if norm else []), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))
