"""Components of a folding: which run again, what is let go once it was read, what was evicted in between."""

from collections.abc import Mapping
from typing import Any

import plica
import plica.numpy as pnp
from plica.constants.fold import fold
from plica.constants.store.cache import FoldCache
from plica.constants.store.components import Component, Components, Constants
from plica.ir.program import Program

VECTOR = plica.spec((3,), "float64")
PROGRAM = plica.trace(lambda x, v, w: (x * pnp.exp(v), x * pnp.sin(pnp.exp(v) + w)), VECTOR, VECTOR, VECTOR)
HANDED = plica.trace(lambda x, v, w: x * pnp.sin(pnp.exp(v) + w), VECTOR, VECTOR, VECTOR)


class _Folder:
    """Folds PROGRAM, whose second value is made of the first, and notes what runs."""

    def __init__(self, cache: FoldCache, program: Program = PROGRAM) -> None:
        folding = fold(program, ("v",), ("w",), is_two=True)
        components = [Component(one, None) for one in folding.components]
        self.components = Components(components, [var.name for var in folding.split.kept], cache, "options")
        self.parts: list[Any] = []
        self.is_written_to = False

    def __call__(self, **states: int) -> list[str]:
        ran: list[str] = []

        def make(component: Component, given: Mapping[str, Any]) -> list[str]:
            assert all(name in given for name in component.reads if name not in states)
            ran.append(component.program.equations[0].op.name)
            return [f"{name}({', '.join(component.reads)})" for name in component.makes]

        constants = Constants(states, make, lambda name: (name,), lambda: not self.is_written_to)
        self.parts, self.values = self.components.fold(constants, self.parts)
        return ran


def test_a_component_runs_again_with_what_reads_it() -> None:
    folder = _Folder(FoldCache())
    assert folder(v=0, w=0) == ["exp", "add"]
    assert folder(v=0, w=0) == []
    assert folder(v=0, w=1) == ["add"]
    assert folder(v=1, w=1) == ["exp", "add"]
    assert len(folder.values) == 2
    assert folder.components.kept_values(folder.parts) == folder.values


def test_functions_share_what_is_made_of_the_same() -> None:
    cache = FoldCache()
    first, second = _Folder(cache), _Folder(cache)
    assert first(v=0, w=0) == ["exp", "add"]
    assert second(v=0, w=0) == []
    assert second(v=0, w=1) == ["add"]
    assert second(v=1, w=0) == ["exp", "add"], "the second value is that of another first one"


def test_what_another_folding_keeps_is_not_let_go() -> None:
    cache = FoldCache()
    keeper, passer = _Folder(cache), _Folder(cache, HANDED)
    assert (keeper(v=0, w=0), passer(v=0, w=0)) == (["exp", "add"], [])
    passer.components.drop_handed_on(passer.parts)
    assert len(cache) == 2
    assert keeper.components.kept_values(keeper.parts) == keeper.values
    assert keeper(v=0, w=1) == ["add"]
    del keeper
    assert len(cache) == 1, "the first value is let go with whoever kept it"
    assert passer(v=0, w=2) == ["exp", "add"]


def _kept(program: Program, cache: FoldCache) -> tuple[dict[str, Any], list[str], Any]:
    """What is kept of a Program with one component that reads w, what ran, and what keeps it."""
    (component,) = fold(program, (), ("w",)).components
    components, ran = Components([Component(component, None)], Component(component, None).makes, cache, "options"), []

    def make(one: Component, given: Mapping[str, Any]) -> list[object]:
        assert not given
        ran.extend(one.makes)
        return [object() for _ in one.makes]

    parts, values = components.fold(Constants({"w": 0}, make, lambda name: (name,), lambda: True))
    return values, ran, parts


def test_one_of_the_values_of_a_component_is_shared_where_the_others_are_not() -> None:
    def both(x, w):
        inner = pnp.sin(w)
        return x * pnp.exp(inner), x * pnp.cos(inner)

    def other(x, w):
        inner = pnp.sin(w)
        return x * pnp.log(inner), x * pnp.exp(inner)

    cache = FoldCache()
    first, ran, parts = _kept(plica.trace(both, VECTOR, VECTOR), cache)
    assert len(first) == len(ran) == len(cache) == 2
    second, ran, more = _kept(plica.trace(other, VECTOR, VECTOR), cache)
    assert list(second.values())[1] is next(iter(first.values()))
    assert len(ran) == 2, "what makes one of them makes both"
    assert len(cache) == 3
    third, ran, last = _kept(plica.trace(lambda x, w: x * pnp.cos(pnp.sin(w)), VECTOR, VECTOR), cache)
    assert list(third.values()) == list(first.values())[1:]
    assert not ran
    del parts, last
    assert len(cache) == 2, "those of the second"
    del more
    assert len(cache) == 0


def test_what_tells_the_values_of_a_component_apart_is_linear() -> None:
    def many(x, w):
        inner = pnp.sin(w)
        return [x * pnp.exp(inner * number) for number in range(100)]

    (component,) = fold(plica.trace(many, VECTOR, VECTOR), (), ("w",)).components
    texts = [text for text, _, _ in Component(component, None).value_programs]
    assert len(texts) == 100
    assert len(dict.fromkeys(map(id, texts))) == 1


def test_what_was_made_while_constants_changed_is_never_found_again() -> None:
    cache = FoldCache()
    first, second = _Folder(cache), _Folder(cache)
    first.is_written_to = True
    assert first(v=0, w=0) == ["exp", "add"]
    assert len(first.values) == 2
    first.is_written_to = False
    assert second(v=0, w=0) == ["exp", "add"]
    assert first(v=0, w=0) == [], "the second one's"


def test_what_was_handed_on_is_let_go_and_made_again_where_it_is_read() -> None:
    folder = _Folder(FoldCache(), HANDED)
    assert folder(v=0, w=0) == ["exp", "add"]
    assert len(folder.values) == 1
    folder.components.drop_handed_on(folder.parts)
    assert folder(v=0, w=0) == []
    assert folder(v=0, w=1) == ["exp", "add"]


def test_what_was_evicted_is_made_again_without_what_reads_it() -> None:
    folder = _Folder(FoldCache())
    folder(v=0, w=0)
    folder.parts[0].entries[0].values = None
    assert folder.components.kept_values(folder.parts) is None
    assert folder(v=0, w=0) == ["exp"]


def test_what_is_made_of_known_constants_alone() -> None:
    components = _Folder(FoldCache()).components
    assert components.reading_only(["v"]) == [0]
    assert components.reading_only(["w"]) == []
    assert components.reading_only(["v", "w"]) == [0, 1]


def test_what_reads_another_value_of_one_component_is_another_one() -> None:
    def halves(x, w):
        parts = pnp.exp(w)
        return x * parts[:3], x * parts[3:], x * pnp.sin(parts[:3]), x * pnp.sin(parts[3:])

    program = plica.trace(halves, VECTOR, plica.spec((6,), "float64"))
    folding = fold(program, (), ("w",))
    folder = _Folder(FoldCache(), program)
    assert folder(w=0) == ["exp", "sin", "sin"]
    assert list(folder.values) == [var.name for var in folding.split.kept]
    assert len(dict.fromkeys(folder.values.values())) == 4
