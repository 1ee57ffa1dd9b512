"""`LoweringScope`: the Program under construction, its captured leaves, and the values of parameters.

All Programs of a circuit share it. It evaluates the graphs of parameters, each node once even if many layers share it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import exp, inf, log, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plica.errors import ShapeError, TraceError, UnsupportedError
from plica.graph.fold import FoldIndex, FoldIndexInfo
from plica.ir.builder import Builder
from plica.ir.dtypes import DType, as_dtype
from plica.ir.program import Program
from plica.ir.types import array_type
from plica.lower.call_parameters import CallParameters, RowAxis, folded_by_row, parameters_by_row
from plica.lower.constants import check_constants
from plica.lower.fold.groups import FoldedCircuit, FoldedLayer
from plica.lower.fold.joint import Joint, joint_groups
from plica.lower.fold.read import read_folds
from plica.lower.leaves import Constant, Leaf, Owners, leaf_keys, name_of, opaque_keys, refuse_without_value
from plica.lower.logs import (
    accurate_logs,
    directed_form,
    exp_form,
    has_accurate_logs,
    is_better,
    learns,
    log_form,
    may_be_zero,
    unchanged,
    with_accurate_inner_logs,
    with_accurate_logs,
)
from plica.lower.optimize.ranges import known_row_sum, magnitude
from plica.lower.parameters import ParameterValues, real_width, wide_dtype
from plica.ops import OPS
from plica.passes.algebra import Fired
from plica.passes.clean import clean
from plica.passes.rewriting import Rewriting
from plica.symbolic.dtypes import DataType
from plica.symbolic.layers import InputRow, Layer, held_layers, with_sub_layers
from plica.symbolic.parameters import LogSoftmaxParameter, Parameter, TensorParameter, exponential
from plica.symbolic.semirings import Logs, Params, Semiring, Value, Weight, are_one_number
from plica.tracing import namespace as xp
from plica.tracing.locations import user_line
from plica.tracing.namespace.operands import as_dims
from plica.tracing.scope import Trace
from plica.tracing.tracer import Tracer, literal

Others = Callable[[], list[Parameter]]  # further parameters, to evaluate together with given ones
Form = Callable[[Parameter], Parameter]


@dataclass(slots=True)
class LoweringScope:
    """The state of lowering, from layer to layer.

    Args:
        folded: The circuit.
        semiring: The semiring, with its number format.
        dtype: The dtype of real parameters.
        owners: The leaves that exist already.
        given: The leaves passed at call time: the first arguments of the Program, in this order. Groups of layers are
            split where the parameters of some alone have a value for each row of data (see `by_row`).

    Attributes:
        weights: The parameters, by group and name, that layers took as weights which may not be negative.
        zeros: Learned parameters that may be 0, and that a layer took as weights or as ordinary numbers. At 0,
            logarithms lack some derivatives.
        always_zeros: Whether other learned numbers, computed from parameters, may be 0.
        fired: The rules that fired on the Program, and where.
    """

    folded: FoldedCircuit
    semiring: Semiring
    dtype: DType
    owners: Owners = field(default_factory=dict)
    given: CallParameters = field(default_factory=dict)
    builder: Builder = field(default_factory=lambda: Builder(OPS))
    captured: list[Leaf | Constant] = field(default_factory=list)
    weights: dict[tuple[FoldedLayer, str], None] = field(default_factory=dict)
    zeros: dict[tuple[FoldedLayer, str], None] = field(default_factory=dict)
    always_zeros: bool = False
    fired: Fired = field(default_factory=dict)
    trace: Trace = field(init=False)
    _keys: Mapping[TensorParameter, str] = field(init=False)
    _names: dict[str, str] = field(init=False)
    _values: ParameterValues = field(init=False)
    _constants: dict[str, Tracer] = field(default_factory=dict)
    _derived: dict[Form, dict[Any, Parameter]] = field(default_factory=dict)
    _joint: Joint = field(init=False)
    _opaque: dict[int, str] = field(init=False)
    _rows: RowAxis = field(default_factory=lambda: RowAxis(1))
    _arguments: dict[TensorParameter, Tracer] = field(default_factory=dict)
    _read: dict[tuple[FoldedLayer, str], None] = field(default_factory=dict)  # what the layer being computed has read

    def __post_init__(self) -> None:
        check_constants(self.folded.described, self.dtype, self.folded.row_if_any)
        self.trace = Trace(self.builder, constant=self._array)
        self._keys = leaf_keys(self.folded.described)
        for leaf in self._keys:
            leaf.mark_compiled()
        # First of all names, so that a leaf has the same name in every Program of the circuit.
        self._names = {key: self.builder.reserve(name_of(key)) for key in self._keys.values()}
        self._opaque = {
            id(backend_object): name_of(key) for key, backend_object in opaque_keys(self.folded.described).items()
        }
        for leaf, by_row in self.given.items():
            shape: tuple[int | str, ...] = ("b", *leaf.shape) if by_row else leaf.shape
            name = f"given_{self._names[self._keys[leaf]]}"
            self._arguments[leaf] = self.argument(name, shape, wide_dtype(leaf.dtype, self.dtype))
        if any(self.given.values()):
            self.folded = folded_by_row(self.folded, self.given)
            self._rows = RowAxis(self.builder.size("b"))
        if self.semiring.at_zeros is not None:
            self.semiring = replace(
                self.semiring,
                from_linear=partial(self._from_linear, self.semiring.from_linear),
                from_weight=partial(self._from_weight, self.semiring.from_weight),
            )
        self._joint = joint_groups(self.folded.groups, self.owners) if self.folded.folds else {}
        self._values = ParameterValues(
            self.dtype, self._leaf, self.owners, self.constant, self._rows, self.given, self._arguments.__getitem__
        )

    def argument(self, name: str, shape: tuple[int | str, ...], dtype: DType) -> Tracer:
        """A new input of the Program."""
        return Tracer(self.builder.argument(name, shape, dtype), self.trace)

    def number(self, value: complex, dtype: DType | None = None) -> Tracer:
        """A literal scalar of the Program."""
        return Tracer(literal(value, dtype or self.dtype), self.trace)

    def constant(self, value: NDArray[Any], name: str = "index") -> Tracer:
        """A captured array that never changes; equal arrays are one, with the same name in every Program."""
        constant = Constant(np.ascontiguousarray(value))
        key = f"{name}_{constant.digest}"
        if key not in self._constants:
            self.captured.append(constant)
            var = self.builder.const(key, array_type(value.shape, as_dtype(value.dtype)))
            self._constants[key] = Tracer(var, self.trace)
        return self._constants[key]

    def _array(self, array: Any) -> Tracer:
        """An array that a custom operation or layer closes over, as a constant; floats get the Program's width.

        Raises:
            TraceError: It cannot be read now, for example because it is a tensor with gradients.
        """
        try:
            value = np.asarray(array)
        except (TypeError, RuntimeError) as error:
            raise TraceError(
                f"{user_line()}: a circuit keeps captured arrays as constants, and this one cannot be read ({error}); "
                "make an array that is learned or lies on another device a parameter."
            ) from None
        dtype = real_width(as_dtype(value.dtype), self.dtype)
        return self.constant(value.astype(dtype.value), "constant")

    def build(self, results: Iterable[Tracer]) -> Program:
        """The Program that returns `results`, without dead code; call it last."""
        self._derived.clear()  # cycles of references would keep these until garbage collection
        return clean(self.builder.build([result.operand for result in results]), self._rewriting(), fired=self.fired)

    def _rewriting(self) -> Rewriting:
        """The rewriting of Programs, in the context of this scope."""
        rewriting = self.folded.rewriting
        if rewriting is None:
            return Rewriting()
        context = replace(rewriting.context, semiring=self.semiring, dtype=self.dtype)
        return replace(rewriting, context=context)

    def by_row(self, group: FoldedLayer) -> RowAxis | None:
        """The joint axis of folds and rows of data, for a group whose parameters differ from row to row; else None.

        Its registry entry then takes parameters `(F*B, *shape)`, and other arrays `(F*B, 1, ...)`, as
        `RowAxis.merge_array` makes them. `RowAxis.split_array` turns its result into `(F, B, ...)`.
        """
        return self._rows if any(self.given.values()) and parameters_by_row(group.members, self.given) else None

    def with_rows(self, value: Value) -> Value:
        """A value without data, `(F, 1, K)`, as `(F, B, K)` where some parameter has a value for each row."""
        return self.semiring.map(xp, self._rows.repeat_rows, value) if any(self.given.values()) else value

    def parameters(self, group: FoldedLayer) -> Params:
        """The parameters of a group, each `(F, *shape)`; shorter ones padded where the row allows it.

        Where the group has a `by_row` they are `(F*B, *shape)`.
        """
        padding = self._padding(group.representative)
        rows = self.by_row(group)
        self._read = {}

        def laid_out(name: str, value: Tracer) -> Tracer:
            if rows is None:
                return value
            return rows.merge_parameter(
                value, group.num_folds, len(group.representative.all_evaluated_params[name].shape)
            )

        def array(name: str) -> Tracer | tuple[Tracer, ...]:
            self._read.setdefault((group, name))
            form = with_accurate_logs
            parameters, others = self._named(group, name, form), self._others(group, name, form)
            if len(parameters[0].outputs) > 1:
                values = zip(self._values.evaluate_outputs(parameters), parameters[0].shapes, strict=True)
                return tuple(
                    value if rows is None else rows.merge_parameter(value, group.num_folds, len(shape))
                    for value, shape in values
                )
            return laid_out(name, self._padded(parameters, padding.get(name), others))

        def weight(name: str, logs: bool, checked: bool) -> Weight:
            self._check_kind(group, name)
            if checked and not self.semiring.negative:
                self.weights.setdefault((group, name))
                self._note_zeros((group, name))
            form = with_accurate_inner_logs
            parameters, others = self._named(group, name, form), self._others(group, name, form)
            if not logs and not checked and all(map(has_accurate_logs, parameters)):
                return Weight(lambda: laid_out(name, self._padded(parameters, padding.get(name), others)))
            converted = self._weight(parameters, padding.get(name), logs, others)
            return converted if rows is None else converted.repeat_folds(partial(laid_out, name))

        def call(name: str, method: str, arrays: Sequence[Tracer], shape: Sequence[Any]) -> Tracer:
            objects = {
                start + key: backend_object
                for start, sub_layer in held_layers(group.representative)
                for key, backend_object in sub_layer.opaque.items()
            }
            params = {
                "name": self._opaque[id(objects[name])],
                "method": method,
                "shape": as_dims(shape),
                "dtype": self.dtype,
            }
            (result,) = self.trace.apply("opaque", *arrays, **params)
            return result

        names = tuple(group.representative.all_evaluated_params)
        params = Params(names, array, weight, call=call, dtype=self.dtype)
        return with_sub_layers(params, group.representative, self.folded.row)

    def _from_linear(self, from_linear: Callable[..., Value], namespace: Any, x: Tracer) -> Value:
        """Ordinary numbers as a value; they may be parameters that the layer has read."""
        for parameter in self._read:
            self._note_zeros(parameter)
        return from_linear(namespace, x)

    def _from_weight(self, from_weight: Callable[..., Value], namespace: Any, weight: Weight) -> Value:
        """Numbers of a parameter as a value, or masses of a layer, which may be 0 where its parameters are not."""
        if weight.in_directions is not None:
            read = [parameter for key in self._read for parameter in self._named(*key, unchanged)]
            self.always_zeros |= any(learns(parameter, self._is_learned) for parameter in read)
        return from_weight(namespace, weight)

    def _note_zeros(self, key: tuple[FoldedLayer, str]) -> None:
        """Note a learned parameter in `zeros` if it may be 0."""
        group, name = key
        parameters = self._named(group, name, unchanged)
        if all(len(parameter.outputs) == 1 for parameter in parameters) and self._may_be_zero(parameters):
            self.zeros.setdefault(key)

    def _is_learned(self, leaf: Any) -> bool:
        """Whether a leaf may have a gradient."""
        return leaf in self.given or (isinstance(leaf, TensorParameter) and leaf.learnable)

    def _check_kind(self, group: FoldedLayer, name: str) -> None:
        """Refuse a complex weight in a semiring of real numbers, which a query of such a circuit may use.

        Raises:
            UnsupportedError: The weight is complex.
        """
        complex_ = any(layer.all_evaluated_params[name].dtype == DataType.COMPLEX for layer in group.members)
        if complex_ and not self.semiring.carries_complex:
            raise UnsupportedError(
                f"{self.builder.source}: its {name} has complex numbers, which {self.semiring.name} cannot represent. "
                "Complex numbers are no probabilities, so such a circuit has scores, but no other query."
            )

    def outputs(self, parameter: Parameter) -> tuple[Tracer, ...]:
        """The values of a parameter, `(1, *shape)` for each of its outputs."""
        return self._values.evaluate_outputs([with_accurate_logs(parameter)])

    @property
    def parameter_info(self) -> FoldIndexInfo[Any]:
        """The array and fold of each node of parameters, so far."""
        return self._values.info

    def _named(self, group: FoldedLayer, name: str, form: Form) -> list[Parameter]:
        """The parameter of each layer of a group, by its name in `all_params`."""
        return [self._derive(layer.all_evaluated_params[name], form) for layer in group.members]

    def _others(self, group: FoldedLayer, name: str, form: Form) -> Others:
        """The same parameter of the groups that are evaluated with this one."""
        joined = self._joint.get((group, name), ())
        return lambda: [
            parameter for other in joined if other is not group for parameter in self._named(other, name, form)
        ]

    def _padding(self, layer: Layer) -> dict[str, float]:
        """The numbers that pad the parameters of a layer and of its sub-layers, by the names of `all_params`."""
        row = self.folded.row(layer)
        fills = dict(row.padding) if isinstance(row, InputRow) else {}
        for name, sub_layer in layer.sub_layers.items():
            fills.update((f"{name}.{key}", fill) for key, fill in self._padding(sub_layer).items())
        return fills

    def _weight(self, parameters: list[Parameter], fill: float | None, from_logs: bool, others: Others) -> Weight:
        """Parameters of ordinary numbers, or of logarithms, as a weight with both."""

        def formed(form: Form, given: list[Parameter]) -> list[Parameter]:
            return [self._derive(parameter, form) for parameter in given]

        to_linear, to_logs = (exp_form, accurate_logs) if from_logs else (unchanged, log_form)
        linear, logs = formed(to_linear, parameters), formed(to_logs, parameters)
        fills = (fill, fill) if fill is None else (_exp(fill), fill) if from_logs else (fill, _log(fill))
        magnitudes = [magnitude(parameter.output, parameter.node_inputs) for parameter in linear]
        largest = max(bounds.largest for bounds in magnitudes)
        underflow = max(1.0, *(bounds.underflow for bounds in magnitudes))
        ranges = [bounds.numbers.range for bounds in magnitudes]
        least = min(-inf if range_ is None else range_[0] for range_ in ranges)
        row_sum = max(map(known_row_sum, linear)) if self.dtype in (DType.FLOAT32, DType.FLOAT64) else inf
        logs_are_better = from_logs or any(map(is_better, logs))
        zeros = not from_logs and self._may_be_zero(parameters)
        directed = (
            self._directions(parameters, fill) if logs_are_better and not from_logs and (zeros or least < 0) else None
        )
        # without a bound on underflow, a large factor may make up for a lost one: only logarithms give the product
        is_bounded = underflow < inf
        lost = underflow if is_bounded else 1.0

        def other_logs() -> list[Parameter]:
            return formed(to_logs, others())

        def in_logs() -> Tracer:
            return self._padded(logs, fills[1], other_logs)

        def in_linear() -> Tracer:
            if logs_are_better and not is_bounded and directed is not None:
                direction, size = _with_equal_axes(*directed())
                product: Tracer = direction * exponential(xp, size)
                return product
            if logs_are_better and not is_bounded and not self.semiring.negative:
                numbers: Tracer = exponential(xp, in_logs())
                return numbers
            return self._padded(linear, fills[0], lambda: formed(to_linear, others()))

        if not logs_are_better:
            return Weight(in_linear, most=largest, least=least, lost=lost, may_be_zero=zeros, row_sum=row_sum)
        exact = partial(self._logs, logs, other_logs, fills[1])
        return Weight(in_linear, in_logs, exact, directed, largest, least, lost, zeros, row_sum)

    def _may_be_zero(self, parameters: list[Parameter]) -> bool:
        """Whether a number may be 0 for some value of a learned leaf."""
        learned = (parameter for parameter in parameters if learns(parameter, self._is_learned))
        return any(may_be_zero(self._derive(parameter, log_form), self._is_learned) for parameter in learned)

    def _directions(
        self, parameters: list[Parameter], fill: float | None
    ) -> Callable[[], tuple[Tracer, Tracer]] | None:
        """A function that computes parameters as directions and sizes; None without signs, or for complex numbers."""
        if not self.semiring.negative or not (self.semiring.logarithmic or self.semiring.proven is not None):
            return None
        forms = [directed_form(parameter) for parameter in parameters]
        directions, sizes = ([form[index] for form in forms if form is not None] for index in (0, 1))
        if len(directions) < len(parameters):
            return None
        fills = (None, None) if fill is None else (float(np.sign(fill)), _log(abs(fill)) if fill else 0.0)
        return lambda: (self._padded(directions, fills[0], list), self._padded(sizes, fills[1], list))

    def _derive(self, parameter: Parameter, form: Form) -> Parameter:
        """A form of a parameter, made once."""
        outputs = parameter.outputs  # layers may construct the same parameter anew at each access
        key = outputs[0] if len(outputs) == 1 else tuple(outputs)
        known = self._derived.setdefault(form, {})
        if key not in known:
            known[key] = form(parameter)
        return known[key]

    def _logs(self, logs: list[Parameter], others: Others, fill: float | None) -> Logs:
        """Logarithms of weights, or the arrays of which they are the log-softmax; shorter ones padded."""
        outputs = [form.output for form in logs]
        have_one_shape = len({form.shape for form in logs}) == 1
        if (have_one_shape or fill == -inf) and all(
            type(output) is LogSoftmaxParameter and output.axis in (-1, len(output.shape) - 1) for output in outputs
        ):
            sources = [form.subgraph(form.node_inputs(form.output)[0]) for form in logs]
            return Logs("log_softmax", self._padded(sources, fill, list))
        return Logs("log", self._padded(logs, fill, others))

    def _padded(self, parameters: list[Parameter], fill: float | None, others: Others) -> Tracer:
        """Parameters whose last axes differ, padded with `fill` to the longest: `(F, ..., C)`."""
        shapes = dict.fromkeys(parameter.shape for parameter in parameters)
        if len(shapes) == 1:
            return self._values.evaluate(parameters, others)
        if fill is None or len({shape[:-1] for shape in shapes}) > 1:
            raise ShapeError(
                f"{self.builder.source}: expected parameters of one shape, found {' and '.join(map(str, shapes))}. "
                "Return the shapes among the settings of fold_settings(), or, if last axes alone differ, name the "
                "parameter in the row's `padding`"
            )
        longest = max(shape[-1] for shape in shapes)
        arrays: list[Tracer] = []
        sources: dict[int, FoldIndex] = {}
        for shape in shapes:
            members = [index for index, parameter in enumerate(parameters) if parameter.shape == shape]
            sources.update((index, (len(arrays), fold)) for fold, index in enumerate(members))
            value = self._values.evaluate([parameters[index] for index in members])
            filler = xp.full((*value.dims[:-1], longest - shape[-1]), fill, dtype=value.dtype)
            arrays.append(xp.concat([value, filler], axis=-1) if shape[-1] < longest else value)
        return read_folds(arrays, [sources[index] for index in range(len(parameters))], self.constant)

    def _leaf(self, leaf: Leaf) -> Tracer:
        key = next(self._keys[member] for member in leaf.members if member in self._keys)
        if leaf.members[0].initializer is None and leaf.members[0] not in self.owners:
            refuse_without_value(key)
        self.captured.append(leaf)
        return Tracer(
            self.builder.const(self._names[key], array_type(leaf.shape, wide_dtype(leaf.kind, self.dtype))), self.trace
        )

    def keep_unread(self) -> None:
        """Capture tensors that no output depends on: state dicts have them, and queries may read them."""
        captured = {member for leaf in self.captured if isinstance(leaf, Leaf) for member in leaf.members} | {
            *self.given
        }
        for tensor in self._keys:
            if tensor not in captured and tensor.initializer is not None:
                leaf = self.owners.get(tensor) or Leaf((tensor,))
                captured.update(leaf.members)
                self._leaf(leaf)

    def read(self, values: list[Value], folds: list[FoldIndex]) -> Value:
        """Some folds of the groups' values, joined along the fold axis: `(len(folds), B, K)`."""
        used = dict.fromkeys(group for group, _ in folds)

        def part(number: int) -> Tracer | float:
            parts: dict[int, Tracer | float] = {group: values[group][number] for group in used}
            if are_one_number(list(parts.values())):
                return parts[folds[0][0]]
            arrays = {group: _as_array(other, values[group][0]) for group, other in parts.items()}
            return read_folds(_of_equal_rows(arrays), folds, self.constant)

        return tuple(map(part, range(len(values[folds[0][0]]))))


def _log(number: float) -> float:
    """The logarithm; NaN of a negative number, as in every Program."""
    return log(number) if number > 0 else nan if number else -inf


def _exp(number: float) -> float:
    """The exponential: infinite where it is too large for a float."""
    try:
        return exp(number)
    except OverflowError:
        return inf


def _as_array(part: Tracer | float, numbers: Tracer) -> Tracer:
    """A part of a value besides its `numbers (F, B, K)`, as an array with an axis of folds."""
    folds = numbers.dims[0]
    if isinstance(part, float):
        return xp.full((folds, 1, 1), part, dtype=xp.real(numbers).dtype)  # of complex numbers it is a bound
    # a body may multiply the values of all folds by one constant
    return part if part.dims[0] == folds else xp.broadcast_to(part, (folds, *part.dims[1:]))


def _with_equal_axes(*arrays: Tracer) -> list[Tracer]:
    """Arrays `(F, ..., C)`; where one of them has rows of data along axis 1, the others get such an axis, of size 1."""
    rank = max(len(array.dims) for array in arrays)
    return [xp.expand_dims(array, axis=1) if len(array.dims) < rank else array for array in arrays]


def _of_equal_rows(arrays: dict[int, Tracer]) -> dict[int, Tracer]:
    """Arrays with equal numbers of rows: those of `(F, 1, K)` are broadcast where another has several rows."""
    rows = next((array.dims[1] for array in arrays.values() if array.dims[1] != 1), 1)
    return {group: xp.broadcast_to(array, (array.dims[0], rows, *array.dims[2:])) for group, array in arrays.items()}
