"""Hidden Chow-Liu trees of black and white digits
===============================================

Hidden Chow-Liu trees: how likely are rows of zeros and ones that the model has not seen?

::

    python examples/hidden_trees.py [picture.png]
    python examples/hidden_trees.py FOLDER

Variables that say most of each other are neighbours in a tree, and each has a hidden state. The circuit sums over the
states of all variables at once. Adam makes the training rows more likely; the validation rows choose the epoch. The
rows are handwritten digits in black and white or, with a folder, those of its files debd_NAME.npz: binary sets that the
field compares models on, each with arrays `train`, `valid` and `test` of bits packed along axis 1.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import plica
from plica.files.datasets import digits, from_path
from plica.learn import Adam, fit, mean_log_likelihood
from plica.queries import sample
from plica.templates import hclt

NAMES = ("plants", "accidents", "baudio", "jester", "dna")


def train(data, latents=64, epochs=10, batch=100, rate=0.2):
    """A compiled hidden Chow-Liu tree that has learned the training rows of a data set."""
    circuit = plica.compile(hclt(data.train, latents))
    circuit.reset_parameters(seed=0)
    fit(circuit, data.train, data.valid, learner=Adam(rate), epochs=epochs, batch=batch)
    return circuit


def log_likelihood_alone(data):
    """The mean log-likelihood of the test rows if each variable is drawn on its own."""
    ones = (data.train.sum(axis=0) + 1) / (len(data.train) + 2)
    return float(np.where(data.test == 1, np.log(ones), np.log(1 - ones)).sum(axis=1).mean())


def black_and_white():
    """The bundled handwritten digits, each of the 8 x 8 pixels 1 where it is darker than half."""
    data = digits()
    return replace(data, **{part: (getattr(data, part) > 7).astype(int) for part in ("train", "valid", "test")})


def draw(circuit, data, path):
    """Images that the tree has not seen, and draws from it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.4), layout="constrained")
    rows = {"digits": data.test[:30], "draws": np.asarray(sample(circuit.eval(), 30, seed=0))}
    for part, (title, images) in zip(figure.subfigures(1, 2), rows.items(), strict=True):
        part.suptitle(title)
        for axes, image in zip(part.subplots(5, 6).flat, images, strict=True):
            axes.imshow(image.reshape(8, 8), cmap="Greys")
            axes.set_axis_off()
    figure.savefig(path)


def main(place=None):
    """Train a tree for each data set, print how likely the test rows are; `place`: a picture's path or a folder."""
    path = place if str(place).endswith(".png") else None
    folder = None if path else place
    if folder:
        paths = [Path(folder) / f"debd_{name}.npz" for name in NAMES]
        sets, settings = [from_path(path) for path in paths if path.exists()], {}
    else:
        sets, settings = [black_and_white()], {"latents": 16, "epochs": 4}
    print("mean log-likelihood of the test rows, in nats")
    print("data set        variables   each alone   hidden tree   seconds")
    for data in sets:
        start = time.perf_counter()
        circuit = train(data, **settings)
        seconds = time.perf_counter() - start
        found = mean_log_likelihood(circuit, data.test, 1000)
        print(f"{data.name:15} {data.num_variables:9} {log_likelihood_alone(data):12.2f} {found:13.2f} {seconds:9.1f}")
        if path is not None:
            draw(circuit, data, path)
    print("compilations:", len(sets))


if __name__ == "__main__":
    main(*sys.argv[1:])
