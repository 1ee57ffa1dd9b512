"""Missing pixels, filled in by a loop
===================================

Filling in missing pixels: a loop that calls a trained circuit.

::

    python examples/imputation.py [picture.png]

A small circuit learns handwritten digits. Then parts of other digits are erased (NaN) and filled in by iterated
conditional modes: each missing pixel in turn takes the value that makes the image most likely, given all others. During
the first sweep pixels that were not reached yet are summed out, as the circuit does with every NaN. All of this is one
compiled function of any number of images; the circuit's parameters are read anew whenever it is called.
"""

import sys

import numpy as np
import torch

import plica
import plica.numpy as pnp
from plica.files.datasets import digits
from plica.learn import fit
from plica.templates.data_modalities import image_data


def train(data, units=16, epochs=5):
    """A circuit of images, trained on rows of pixels (N, D)."""
    described = image_data(
        data.shape,
        "quad-tree-2",
        input_layer="categorical",
        num_values=data.num_values,
        num_input_units=units,
        sum_product_layer="cp",
        num_sum_units=units,
    )
    circuit = plica.compile(described)
    fit(circuit, data.train, data.valid, epochs=epochs)
    return circuit


def make_impute(circuit, num_values):
    """A compiled function that fills in what is missing in rows of data.

    Args:
        circuit: A compiled circuit of D variables.
        num_values: Each of them has values 0 to num_values - 1.

    Returns:
        A function of rows (b, D), NaN where a value is missing, and of a number of sweeps, at least 1. It returns the
        filled rows, and the log-likelihoods (sweeps, b) after each sweep, which never decrease.
    """
    width = circuit.num_variables
    data = plica.spec(("b", width), str(circuit.dtype).removeprefix("torch."))

    @plica.jit
    def impute(rows: data, sweeps: int):
        missing = pnp.isnan(rows)
        (places,) = pnp.nonzero(pnp.any(missing, axis=0))  # how many there are is known only when this runs

        def visit(i, x):  # one variable of each row takes the best of all its values
            v = places[i]
            tried = pnp.broadcast_to(x, (num_values, *x.shape)).at[:, :, v].set(pnp.arange(num_values)[:, None])
            scores = circuit(pnp.reshape(tried, (-1, width)))
            best = pnp.argmax(pnp.reshape(scores, (num_values, -1)), axis=0)
            return x.at[:, v].set(pnp.where(missing[:, v], best, x[:, v]))

        def sweep(x, _):
            x = plica.for_loop(0, places.shape[0], 1, visit, x)
            return x, circuit(x)[:, 0, 0]

        return plica.scan(sweep, rows, length=sweeps)

    return impute


def erase(images, first_row, last_row):
    """Rows of 8 x 8 pixels as floats, with NaN from one row of pixels up to another, which is left out."""
    rows = np.array(images, dtype=np.float32).reshape(-1, 8, 8)
    rows[:, first_row:last_row] = np.nan
    return rows.reshape(-1, 64)


def picture(row):
    """The lines of an image in letters: the darker, the denser; `?` is missing."""
    return ["".join("?" if np.isnan(value) else " .:oO@"[int(value) // 3] for value in line) for line in row]


def draw(erased, filled, images, path):
    """Images with their erased rows, what is filled in, and as they were."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots(3, len(images))
    for line, (title, rows) in zip(axes, {"erased": erased, "filled in": filled, "true": images}.items(), strict=True):
        line[0].set_ylabel(title)
        for place, row in zip(line, rows, strict=True):
            place.imshow(np.asarray(row).reshape(8, 8), cmap="Greys", vmin=0, vmax=16)
            place.set_xticks([])
            place.set_yticks([])
            place.set_facecolor("#f3d9cc")  # what is missing
    figure.savefig(path)


def main(path=None):
    """Train, erase the middle of some test images, fill it in, and show one of them."""
    torch.manual_seed(0)
    data = digits()
    impute = make_impute(train(data), data.num_values)
    for count in (3, 12):
        erased = erase(data.test[:count], 2, 6)
        with torch.no_grad():
            filled, log_likelihoods = impute(erased, 3)
        means = ", ".join(f"{mean:.2f}" for mean in log_likelihoods.mean(axis=1))
        error = np.abs(filled - data.test[:count])[np.isnan(erased)].mean()
        print(f"{count:2} images: log-likelihood after each sweep {means}; error of a missing pixel {error:.1f} of 16")
    print("erased, filled in, and as it was:")
    pictures = (picture(rows[0].reshape(8, 8)) for rows in (erased, filled, data.test))
    print("\n".join("   ".join(lines) for lines in zip(*pictures, strict=True)))
    if path is not None:
        draw(erased, filled, data.test[:count], path)
    print("compilations:", impute.num_compilations)


if __name__ == "__main__":
    main(*sys.argv[1:])
