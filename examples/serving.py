"""A network served with weights of four bits
==========================================

A multilayer perceptron is trained, quantized, and served with packed weights of eight or four bits.

::

    python examples/serving.py [picture.png]

The model fills in the lower half of handwritten digits. For serving, each column of a weight becomes integers and one
scale. What is served is written as if it computed with floats in panels of columns; folding the constants packs the
integers into panels once, and leaves to each call what would make them larger: to convert and to scale them.
"""

import sys

import numpy as np
import torch

import plica
import plica.numpy as pnp
from plica.files.datasets import digits

PANEL = 16  # columns that lie in memory together
HIDDEN = 96


def mlp(x, w1, b1, w2, b2):
    """Pixels (b, O) from pixels (b, I), for weights (I, H) and (H, O) and their biases."""
    return pnp.maximum(x @ w1 + b1, 0) @ w2 + b2


def in_panels(x, codes, scale):
    """The product x @ (codes * scale), of (b, I) and (I, O), panel after panel."""
    panels = pnp.pack(pnp.astype(codes, "float32") * scale, (1,), (PANEL,), outer_dims_perm=(1, 0))
    return pnp.reshape(pnp.permute_dims(x @ panels, (1, 0, 2)), (-1, codes.shape[1]))


def served(x, w1, s1, b1, w2, s2, b2):
    """The same model, for weights of integers and the scales (H,) and (O,) of their columns."""
    return in_panels(pnp.maximum(in_panels(x, w1, s1) + b1, 0), w2, s2) + b2


def quantize(weight, bits):
    """A weight (I, O) as integers of so many bits and the scales (O,) of its columns; four bits are packed in bytes."""
    most = 2 ** (bits - 1) - 1
    scale = np.maximum(np.abs(weight).max(axis=0), 1e-30) / most
    codes = np.round(weight / scale).astype("int8")
    return (plica.PackedArray.of(codes, "int4") if bits == 4 else codes), scale


def fold(shape, bits):
    """`served` for (inputs, hidden units, outputs) and any number of rows, its constants folded."""
    inputs, hidden, outputs = shape
    specs = [plica.spec(("b", inputs))]
    for rows, columns in ((inputs, hidden), (hidden, outputs)):
        specs += [plica.spec((rows, columns), f"int{bits}"), plica.spec(columns), plica.spec(columns)]
    return plica.fold_constants(plica.trace(served, *specs), run_time=("w1", "s1", "b1", "w2", "s2", "b2"))


def constants(parameters, bits):
    """What is served of a trained model, by name."""
    w1, b1, w2, b2 = (one.detach().numpy() for one in parameters)
    return dict(
        zip(("w1", "s1", "b1", "w2", "s2", "b2"), (*quantize(w1, bits), b1, *quantize(w2, bits), b2), strict=True)
    )


def train(parameters, x, y, steps):
    """Fit the parameters to rows, all at once; the function is traced once and differentiated by torch."""
    model = plica.jit(mlp)
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for _ in range(steps):
        loss = (model(x, *parameters) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def halves(rows):
    """The upper and the lower halves of images, as floats from 0 to 1."""
    scaled = torch.as_tensor(rows, dtype=torch.float32) / 16
    return scaled[:, :32], scaled[:, 32:]


def draw(given, filled, path):
    """Upper halves that were given, with the lower halves that each model fills in."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for line, (title, lower) in zip(figure.subplots(len(filled), 10), filled.items(), strict=True):
        line[0].set_ylabel(title)
        for axes, upper, below in zip(line, given, lower, strict=False):
            axes.imshow(np.concatenate([upper, below]).reshape(8, 8), cmap="Greys", vmin=0, vmax=1)
            axes.axhline(3.5, color="#c4572e", linewidth=1)
            axes.set_xticks([])
            axes.set_yticks([])
    figure.savefig(path)


def main(path=None):
    """Train, serve in three sizes, train on, and swap the weights of what is served."""
    torch.manual_seed(0)
    data = digits()
    (x, y), (given, lower) = halves(data.train), halves(data.test)
    parameters = [0.1 * torch.randn(32, HIDDEN), torch.zeros(HIDDEN), 0.1 * torch.randn(HIDDEN, 32), torch.zeros(32)]
    for one in parameters:
        one.requires_grad_()
    train(parameters, x, y, steps=40)

    def error(found):
        return f"error of a pixel {16 * (found - lower).abs().mean():.3f} of 16"

    filled = {"true": lower}
    with torch.no_grad():
        filled["float32"] = mlp(given, *parameters)
        print(f"float32 {sum(one.nbytes for one in parameters):6} bytes, {error(mlp(given, *parameters))}")
    for bits in (8, 4):
        folded = fold((32, HIDDEN, 32), bits)
        run = folded.compile(release_sources=True)
        found = filled[f"int{bits}"] = run(given, **constants(parameters, bits))
        print(f"int{bits}    {folded.report().after:6} bytes, {error(found)}")
    print(
        "\n".join(line.split(" (")[0] for line in str(folded.report()).splitlines())
    )  # without the lines of this file
    rows = [len(run(given[:count])) for count in (1, 7, 250)]
    before = run.num_folds
    train(parameters, x, y, steps=60)
    run.update(**constants(parameters, 4))
    print(f"trained on, and swapped: {error(run(given))}")
    if path is not None:
        draw(given, filled, path)
    print(f"calls of {rows} rows: {before} folds; after the swap {run.num_folds - before} more")


if __name__ == "__main__":
    main(*sys.argv[1:])
