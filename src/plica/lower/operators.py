"""The operators of `plica.symbolic.functional` as methods: one table, which contexts and compiled circuits inherit.

An operator takes circuits, compiled or as they are described, and gives a compiled one, which shares their tensors.

>>> sorted(OPERATORS)[:3]
['concatenate', 'condition', 'conjugate']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import Any, final, overload

from plica.arguments import elements
from plica.symbolic import functional
from plica.symbolic.circuit import Circuit


@final
@dataclass(slots=True, eq=False)
class Operator:
    """An operator; as an attribute of a class it is a method, which calls `apply_operator`.

    Args:
        of_sequence: Whether its first argument is a sequence of circuits; else it is a circuit.

    Attributes:
        name: The name of its function, and of its methods.
    """

    of_sequence: bool = False
    name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Operator: ...

    @overload
    def __get__(self, instance: OperatorMethods, owner: type) -> Callable[..., Any]: ...

    def __get__(self, instance: OperatorMethods | None, owner: type) -> Operator | Callable[..., Any]:
        if instance is None:
            return self
        apply = self._of_operand(instance) if instance.is_operand else instance.apply_operator
        return self.calling(apply, is_method_of_operand=instance.is_operand)

    @property
    def function(self) -> Callable[..., Circuit]:
        """The function of circuits as they are described, which takes the `registry` of a context."""
        function: Callable[..., Circuit] = getattr(functional, self.name)
        return function

    def calling(
        self, apply: Callable[..., Any], further: tuple[Parameter, ...] = (), *, is_method_of_operand: bool = False
    ) -> Callable[..., Any]:
        """A function with the name and the parameters of the operator, but for the registry.

        Args:
            apply: `apply(operator, *arguments, **settings)`.
            further: Parameters that it has besides.
            is_method_of_operand: Whether its object is the first circuit, so that only others are given.
        """

        def call(*arguments: Any, **settings: Any) -> Any:
            if self.of_sequence and arguments:  # a sequence that can be read twice
                arguments = (elements(self.name, "circuits", arguments[0]), *arguments[1:])
            elif self.of_sequence and "circuits" in settings:
                arguments = (elements(self.name, "circuits", settings.pop("circuits")),)
            return apply(self, *arguments, **settings)

        call.__name__ = call.__qualname__ = self.name
        call.__doc__ = f"`plica.symbolic.functional.{self.name}` of compiled circuits, or described ones; compiled."
        first, *others = (
            parameter for parameter in signature(self.function).parameters.values() if parameter.name != "registry"
        )
        own = others if is_method_of_operand and not self.of_sequence else [first, *others]
        call.__signature__ = Signature([*own, *further])  # type: ignore[attr-defined]  # `inspect` reads it
        return call

    def _of_operand(self, circuit: OperatorMethods) -> Callable[..., Any]:
        """The function that applies the operator to a circuit and others."""

        def apply(operator: Operator, *arguments: Any, **settings: Any) -> Any:
            if not self.of_sequence:
                return circuit.apply_operator(operator, circuit, *arguments, **settings)
            others, *further = arguments or ((),)
            return circuit.apply_operator(operator, [circuit, *others], *further, **settings)

        return apply


class OperatorMethods(ABC):
    """The operators as methods: the table `OPERATORS`."""

    is_operand = False
    """Whether the object is a circuit, and so the first operand of its methods."""

    @abstractmethod
    def apply_operator(self, operator: Operator, *arguments: Any, **settings: Any) -> Any:
        """The result of an operator, compiled.

        Args:
            operator: The operator.
            arguments: Those of its function; compiled circuits, alone and in sequences, stand for the described ones.
            settings: The same, by name.

        Raises:
            UnsupportedError: A compiled circuit was compiled elsewhere.
        """

    concatenate = Operator(of_sequence=True)
    evidence = Operator()
    condition = Operator()
    integrate = Operator()
    marginal = Operator()
    multiply = Operator()
    power = Operator()
    differentiate = Operator()
    conjugate = Operator()
    mixture = Operator(of_sequence=True)
    rename = Operator()
    smooth = Operator()
    simplify = Operator()
    normalize = Operator()


OPERATORS: Mapping[str, Operator] = {
    name: value for name, value in vars(OperatorMethods).items() if isinstance(value, Operator)
}
