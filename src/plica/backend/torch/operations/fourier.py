"""Rows of Fourier transforms."""

from plica.backend.torch.operations.call import Row, bounds_source


def _transform(name: str) -> Row:
    return Row(
        lambda call: (
            f"kernels.transform({name!r}, {call.tensor(0)}, {bounds_source(call.params['sizes'])}, {call.params['axes']!r}, "
            f"{call.params['norm']!r})"
        )
    )


FOURIER: dict[str, Row] = {name: _transform(f"{name}n") for name in ("fft", "ifft", "rfft", "irfft")}
