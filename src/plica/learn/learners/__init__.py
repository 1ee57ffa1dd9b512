"""The learners by name, and as the command line writes them.

>>> parse_learner("adam:rate=0.05,schedule=linear")
Adam(rate=0.05, schedule='linear', weight_decay=0.0, pseudocount=0.0, apart=False)
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from plica.errors import InputError
from plica.learn.learners.adam import Adam as Adam
from plica.learn.learners.anemone import Anemone as Anemone
from plica.learn.learners.base import Learner
from plica.learn.learners.full_em import FullEM as FullEM
from plica.learn.learners.stepwise_em import StepwiseEM as StepwiseEM

LEARNERS: Mapping[str, type[Any]] = {learner.name: learner for learner in (Adam, FullEM, StepwiseEM, Anemone)}


def parse_learner(text: str, **settings: float | str | None) -> Learner:
    """The learner of a text `NAME` or `NAME:SETTING=VALUE,...`.

    Args:
        text: The text.
        settings: Further settings; those that are None are left out.

    Raises:
        InputError: There is no such learner or setting, a value is no number where one is needed, or one setting is
            given twice.
    """
    name, _, listed = text.partition(":")
    if name not in LEARNERS:
        raise InputError(f"there is no learner {name!r}; choose one of {', '.join(LEARNERS)}")
    kinds = {field.name: type(field.default) for field in fields(LEARNERS[name])}
    given: dict[str, Any] = {}
    pairs: list[tuple[str, Any]] = [(key, value) for key, value in settings.items() if value is not None]
    for part in listed.split(",") if listed else ():
        key, _, value = part.partition("=")
        pairs.append((key.strip(), value.strip()))
    for key, value in pairs:
        setting = key.replace("-", "_")
        if setting not in kinds:
            raise InputError(f"the learner {name} has no setting {key!r}; its settings are {', '.join(kinds)}")
        if setting in given:
            raise InputError(f"the learner {name}: {key} is given twice; leave one of both out")
        given[setting] = _converted(name, key, value, kinds[setting])
    learner: Learner = LEARNERS[name](**given)
    return learner


def _converted(learner: str, setting: str, value: Any, kind: type[Any]) -> Any:
    if kind is str:
        return value
    if kind is bool:
        if value not in _FLAGS:
            raise InputError(f"the learner {learner}: {setting} must be true or false, found {value!r}")
        return _FLAGS[value]
    try:
        return int(value) if kind is int else float(value)
    except ValueError:
        raise InputError(f"the learner {learner}: {setting} must be a number, found {value!r}") from None


def learner_settings(learner: Learner) -> dict[str, Any]:
    """The name and the settings of a learner as plain values; a function stands as `module.name`."""
    settings = {field.name: getattr(learner, field.name) for field in fields(learner)}  # type: ignore[arg-type]
    named = {name: _plain(value) for name, value in settings.items()}
    return {"name": learner.name, **named}


_FLAGS = {"true": True, "false": False, True: True, False: False}


def _plain(value: Any) -> Any:
    if callable(value):
        kind = type(value) if not hasattr(value, "__qualname__") else value
        return f"{kind.__module__}.{kind.__qualname__}"
    return value
