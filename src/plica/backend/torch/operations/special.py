"""Rows of special functions."""

from plica.backend.torch.operations.call import Row, function

SPECIAL: dict[str, Row] = {
    "betainc": Row(function("kernels.betainc")),
    "betaincc": Row(function("kernels.betaincc")),
    "betaincinv": Row(function("kernels.betaincinv")),
    "digamma": Row(function("torch.digamma")),
    "erfc": Row(function("torch.erfc")),
    "gammainc": Row(function("kernels.gammainc")),
    "gammaincc": Row(function("kernels.gammaincc")),
    "gammaincinv": Row(function("kernels.gammaincinv")),
    "i0e": Row(function("torch.special.i0e")),
    "i1e": Row(function("torch.special.i1e")),
    "lgamma": Row(function("torch.lgamma")),
    "log_ndtr": Row(function("kernels.log_ndtr")),
    "stirling_error": Row(function("kernels.stirling_error")),
}
