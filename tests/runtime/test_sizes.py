import pytest
from hypothesis import given
from hypothesis import strategies as st

from plica.errors import NativeFileError
from plica.ir.sizes import Size, atoms
from plica.ir.sizes import evaluate as of_program
from plica.runtime.sizes import evaluate, is_symbol, symbols

NAMES = ("n", "m")


def _formulas() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(NAMES) | st.integers(0, 20).map(str) | st.sampled_from(["n^2", "m^3"])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-"), inner).map("".join),
            st.tuples(st.sampled_from(NAMES), st.just("*"), st.integers(0, 9).map(str)).map("".join),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]},{t[2]})"),
            st.tuples(st.sampled_from(["floordiv", "mod"]), inner, st.integers(1, 9)).map(
                lambda t: f"{t[0]}({t[1]},{t[2]})"
            ),
        ),
        max_leaves=8,
    )


@given(_formulas(), st.integers(0, 9), st.integers(0, 9))
def test_formulas_have_the_value_that_python_gives_them(text: str, n: int, m: int) -> None:
    names = {"n": n, "m": m, "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max}
    assert evaluate(text, {"n": n, "m": m}) == eval(text.replace("^", "**"), names)


def _name(atom: object) -> str:
    """The name of a variable, which is shown with its type."""
    return str(atom).partition(":")[0]


@given(st.integers(0, 9), st.integers(0, 9))
def test_sizes_are_read_as_programs_print_them(n: int, m: int) -> None:
    import plica
    import plica.numpy as pnp

    def shapes(x):
        return x[1::2], x[:-1], pnp.reshape(x, (-1,)), pnp.zeros((x.shape[0] ** 2 * 3 + x.shape[1],))

    program = plica.trace(shapes, plica.spec(("n", "m")))
    sizes = [dim for one in program.results for dim in one.type.shape if isinstance(dim, Size)]
    assert any("floordiv" in str(size) for size in sizes)
    for size in sizes:
        known = {atom: {"n": n, "m": m}[_name(atom)] for atom in atoms(size)}
        assert evaluate(str(size), {"n": n, "m": m}) == of_program(size, known.__getitem__)
        assert set(symbols(str(size))) == {_name(atom) for atom in atoms(size)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n+",
        "2 n",
        "(n)",
        "n/2",
        "n^n",
        "n^99",
        "max(n)",
        "max n,1",
        "min(n,1",
        "mod(n,0)",
        "1.5",
        "f(n)",
        "n" * 2000,
    ],
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(NativeFileError, match="is no size"):
        evaluate(text, {"n": 1})


def test_functions_are_symbols_where_no_parenthesis_follows() -> None:
    sizes = ("n", "max", "n2", "2", "n+1", 3, "max(n,1)")
    assert [is_symbol(size) for size in sizes] == [True, True, True, False, False, False, False]
    assert symbols("max(max,mod-1)*min") == ("max", "mod", "min")
    assert evaluate("max(max,mod-1)*min", {"max": 2, "mod": 5, "min": 3}) == 12


def test_a_formula_may_divide_by_what_is_zero_for_some_sizes() -> None:
    assert symbols("floordiv(n,m-1)+mod(n,k-1)") == ("n", "m", "k")
    assert evaluate("floordiv(n,m-1)", {"n": 7, "m": 3}) == 3
    with pytest.raises(NativeFileError, match="is no size"):
        evaluate("floordiv(n,m-1)", {"n": 7, "m": 1})
