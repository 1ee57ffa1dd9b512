"""Expectation maximization that sees all rows before it changes the model.

>>> FullEM()
FullEM(pseudocount=1.0, apart=False)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, final

from torch import Tensor, nn

from plica.arguments import flag
from plica.distributed.ranks import Ranks
from plica.learn.conditional import conditional_statistics, within_reach
from plica.learn.expectation import Statistics
from plica.learn.learners.base import Learner, Plan, Training
from plica.learn.learners.maximization import Maximization, check_number, mean_log_likelihood
from plica.learn.predicting import Predicting

_RATE = 0.05  # of Adam, for leaves without a closed form


@final
@dataclass(frozen=True, slots=True)
class FullEM(Learner):
    """Expectation maximization: one update in each epoch, of the expected counts of all rows.

    An update with `pseudocount=0` never lowers the likelihood of the rows, and there is no rate to choose. It suits
    models of few units, such as mixtures; hidden trees learn faster by `StepwiseEM`. Leaves without a closed form take
    a step of Adam for each batch. A model that is `Predicting` a variable learns by `plica.learn.conditional`, whose
    updates may lower its objective.

    Args:
        pseudocount: Imaginary rows for each distribution: spread evenly over states and over terms of sums; of numbers,
            with the variance of the whole layer. They keep probabilities above 0 and covariances invertible. Vectors
            of V normal variables get V / 2 to 2 V times as many for their covariances, like those within the units of
            the layer, and variances of at least a thousandth of the layer's.
        apart: Whether each term of the output's sum learns all rows by itself, as a circuit of its own, so that the sum
            is the average of an ensemble; else terms share the rows, as those of a mixture do.

    Raises:
        InputError: The pseudocount is below 0.
        DTypeError: `apart` is no truth value.

    Source: Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm", 1977; for
        circuits Poon and Domingos, "Sum-product networks: a new deep architecture", 2011.
    """

    name: ClassVar[str] = "full-em"
    pseudocount: float = 1.0
    apart: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "pseudocount", check_number("FullEM", "pseudocount", self.pseudocount))
        flag("FullEM", "apart", self.apart)

    def training(self, model: nn.Module, plan: Plan) -> Training:
        """What trains a model."""
        predicting = model if isinstance(model, Predicting) else None
        circuit = model if predicting is None else predicting.model
        maximization = Maximization(circuit, plan, _RATE, apart=self.apart)
        return _Training(maximization, self.pseudocount, predicting, plan.ranks)


@final
class _Training(Training):
    """Counts rows until the epoch ends, each process its own."""

    def __init__(
        self, maximization: Maximization, pseudocount: float, predicting: Predicting | None, ranks: Ranks
    ) -> None:
        self._maximization, self._pseudocount, self._predicting = maximization, pseudocount, predicting
        self._ranks = ranks
        self._statistics: Statistics | None = None

    def step(self, batch: Tensor, num_rows: int | None = None) -> Tensor:
        expectation = self._maximization.expectation
        if self._predicting is None:
            statistics = expectation.of(batch)
        else:
            statistics = conditional_statistics(expectation, self._predicting, batch)
        statistics = statistics.among(num_rows)
        self._maximization.step_rest(statistics)
        self._statistics = statistics if self._statistics is None else self._statistics + statistics
        return mean_log_likelihood(statistics)

    def end_epoch(self) -> None:
        if self._statistics is not None:
            expectation, statistics = self._maximization.expectation, self._statistics.summed(self._ranks)
            if self._predicting is not None:
                statistics = within_reach(expectation, statistics)
            expectation.maximize(statistics, self._pseudocount)
        self._statistics = None

    def state_dict(self) -> dict[str, Any]:
        parts = [] if self._statistics is None else self._ranks.gather(self._statistics.state())
        return {"statistics": parts, "rest": self._maximization.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        parts = [Statistics.of_state(part, self._maximization.device) for part in state["statistics"]]
        self._statistics = None
        if len(parts) == self._ranks.size:  # the same sums in the same order, to the bit
            self._statistics = parts[self._ranks.rank]
        elif parts:
            total = reduce(lambda sum_of_some, part: sum_of_some + part, parts)
            self._statistics = total if self._ranks.is_first else total.scaled(0.0)
        self._maximization.load_state_dict(state["rest"])
