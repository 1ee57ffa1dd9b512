"""Rows of Fourier transforms."""

from plica.backend.torch.operations.call import Call, Row, bounds_source


def _transform(name: str) -> Row:
    def text(call: Call) -> str:
        sizes, axes, norm = bounds_source(call.params["sizes"]), call.params["axes"], call.params["norm"]
        return f"kernels.transform({name!r}, {call.tensor(0)}, {sizes}, {axes!r}, {norm!r})"

    return Row(text)


FOURIER: dict[str, Row] = {name: _transform(name) for name in ("fft", "ifft", "rfft", "irfft")}
