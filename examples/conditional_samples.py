"""Many completions of one image
=============================

What may the right half of a digit be, given its left half? Exact conditional samples of a circuit.

::

    python examples/conditional_samples.py [picture.png]

A circuit learns scikit-learn's handwritten digits. Then the right halves of some test images are erased (NaN), and
drawn eight times each from the exact conditional distribution. Where the left half leaves several digits open, the
completions differ. The expectation of each missing pixel shows the same as a blurred image.
"""

import sys

import numpy as np
import torch

import plica
from plica.files.datasets import digits
from plica.learn import Adam, fit
from plica.queries import mean, sample
from plica.templates.data_modalities import image_data

COMPLETIONS = 8


def train(data, units=24, epochs=10):
    """A circuit of images, trained on rows of pixels (N, D)."""
    described = image_data(
        data.shape,
        "quad-graph",
        input_layer="categorical",
        num_values=data.num_values,
        num_input_units=units,
        sum_product_layer="cp",
        num_sum_units=units,
    )
    circuit = plica.compile(described)
    circuit.reset_parameters(seed=0)
    fit(circuit, data.train, data.valid, learner=Adam(0.1), epochs=epochs, batch=100)
    return circuit.eval()


def left_halves(images):
    """Rows of 8 x 8 pixels as floats, with NaN in the right half."""
    rows = np.array(images, dtype=np.float32).reshape(-1, 8, 8)
    rows[:, :, 4:] = np.nan
    return torch.as_tensor(rows.reshape(-1, 64))


def draw(images, halves, drawn, expected, path):
    """A line for each image: as it was, its left half, the completions, and what is expected."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.95 * len(images)), layout="constrained")
    for line, image, half, draws, blurred in zip(
        figure.subplots(len(images), COMPLETIONS + 3), images, halves, drawn, expected, strict=True
    ):
        for axes, row in zip(line, (image, half, *draws, blurred), strict=True):
            axes.imshow(np.asarray(row).reshape(8, 8), cmap="Greys", vmin=0, vmax=16)
            axes.set_facecolor("#f3d9cc")  # what is missing
            axes.set_xticks([])
            axes.set_yticks([])
    for axes, title in zip(figure.axes, ("true", "given", *["drawn"] * COMPLETIONS, "mean"), strict=False):
        axes.set_title(title, fontsize=9)
    figure.savefig(path)


def main(path=None, epochs=10):
    """Train, complete, and compare draws with the expectation."""
    data = digits()
    circuit = train(data, epochs=epochs)
    images = data.test[:7]
    halves = left_halves(images)
    drawn = sample(circuit, COMPLETIONS, given=halves, seed=0).reshape(len(images), COMPLETIONS, 64)
    kept = bool((drawn[:, :, ~halves[0].isnan()] == halves[:, None, ~halves[0].isnan()]).all())
    expected = mean(circuit, halves)
    print(f"images {len(images)}, completions of each {COMPLETIONS}; the left halves stay: {kept}")
    missing = halves[0].isnan()
    many = sample(circuit, 2000, given=halves[:1], seed=1).float().mean(0)
    difference = (many - expected[0])[missing].abs().max()
    print(f"largest difference of a pixel's mean, 2000 draws against exact: {difference:.2f} of 16")
    spread = drawn.float().std(1)[:, missing].mean(1)
    print("spread of a missing pixel, by image:", ", ".join(f"{value:.1f}" for value in spread))
    if path is not None:
        draw(images, halves, drawn, expected, path)
    print("pixels drawn:", drawn.numel() // 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
