"""One native file in three hands: Python, command line, HTTP
==========================================================

A trained circuit becomes one file of machine code. Python, the command line and an HTTP service give the same answers.

::

    python examples/native_three_ways.py [picture.png]

A circuit learns handwritten digits and is written to a file. Then the lower halves of some images are erased, and three
readers of the file complete them by the same seed: `plica.native.load`, the command `plica run`, and the service of
`examples/serve`. None of them needs torch.
"""

import io
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import plica
import plica.native
from plica.files.datasets import digits
from plica.learn import Adam, fit
from plica.templates.data_modalities import image_data

ROOT = Path(__file__).parents[1]
SEED = 3


def write(path, epochs):
    """Train a circuit of digits, and write its file."""
    data = digits()
    described = image_data(
        data.shape,
        "quad-tree-2",
        input_layer="categorical",
        num_values=data.num_values,
        num_input_units=16,
        sum_product_layer="cp",
        num_sum_units=16,
    )
    circuit = plica.compile(described)
    circuit.reset_parameters(seed=0)
    fit(circuit, data.train, data.valid, learner=Adam(0.1), epochs=epochs, batch=100)
    plica.native.compile(circuit.eval(), path, queries=("log-likelihood", "marginal", "conditional-sample"))
    return data.test[:8]


def by_python(path, rows):
    """The completions, in this process."""
    return plica.native.load(path).conditional_sample(rows, seed=SEED)[0]


def by_command(path, rows):
    """The completions, by the command line."""
    given, answer = path.with_name("rows.npy"), path.with_name("completed.npz")
    np.save(given, rows)
    command = [sys.executable, "-m", "plica", "run", path, "--entry", "conditional_sample", "--seed", str(SEED)]
    subprocess.run([*command, "--input", given, "--output", answer], check=True, capture_output=True)
    with np.load(answer) as arrays:
        return next(array for array in arrays.values() if array.shape == rows.shape)


@contextmanager
def served(path, port=8731):
    """The address of a service of the file, while it runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.serve", path, "--port", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


def by_http(path, rows):
    """The completions, by the service, asked in JSON: `null` is a missing pixel."""
    lists = [[None if np.isnan(value) else float(value) for value in row] for row in rows]
    body = json.dumps({"x": lists, "seed": SEED}).encode()
    with served(path) as address:
        request = urllib.request.Request(
            f"{address}/v1/conditional-sample", body, {"Content-Type": "application/json", "Accept": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            results = json.load(io.TextIOWrapper(answer))["results"]
    return next(array for array in map(np.array, results.values()) if array.shape == rows.shape)


HANDS = {"Python": by_python, "command line": by_command, "HTTP": by_http}


def draw(images, rows, answers, path):
    """A line for each reader of the file, below the images and their upper halves."""
    from matplotlib.figure import Figure

    lines = {"true": images, "given": rows, **answers}
    figure = Figure(figsize=(8, 5), layout="constrained")
    for line, (title, values) in zip(figure.subplots(len(lines), len(rows)), lines.items(), strict=True):
        line[0].set_ylabel(title, fontsize=9)
        for axes, row in zip(line, values, strict=True):
            axes.imshow(np.asarray(row).reshape(8, 8), cmap="Greys", vmin=0, vmax=16)
            axes.set_facecolor("#f3d9cc")  # what is missing
            axes.set_xticks([])
            axes.set_yticks([])
    figure.savefig(path)


def main(picture=None, epochs=5):
    """Write the file, ask it three times, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.plicab"
        images = write(path, epochs)
        rows = images.astype(np.float32)
        rows[:, 32:] = np.nan
        answers = {name: np.asarray(ask(path, rows)) for name, ask in HANDS.items()}
        print(f"one file of {path.stat().st_size / 2**20:.1f} MiB")
    for name, answer in answers.items():
        kept = np.array_equal(answer[:, :32], images[:, :32])
        print(f"{name}: {answer.shape[0]} completions, upper halves kept: {kept}")
    if picture is not None:
        draw(images, rows, answers, picture)
    first, *others = answers.values()
    print("the three agree:", all(np.array_equal(first, other) for other in others))


if __name__ == "__main__":
    main(*sys.argv[1:])
