"""How long a fit takes: units of work, the seconds of each on one thread of a measured machine, and who shares them.

A unit of work is named ``stage.kind``. ``benchmarks/scaling_model.py`` fits its seconds to fits of many sizes, and
writes them to ``rates.json`` beside this module. Most work is shared by all threads; the kinds in :data:`ALONE` are
done by one thread while the others wait; ``rounds`` and ``sent`` are messages between workers.

The number of products that an eigensolver needs depends on the rows: few if the clusters are clearly apart, many if
they are not. So every duration is a range between these.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

RATES = Path(__file__).with_name("rates.json")
ALONE = ("fixed", "serial")
ROUNDS, SENT = "rounds", "sent"

Work = Mapping[str, float]
"""Units of work by ``stage.kind``."""


@dataclass(frozen=True)
class Answer:
    """Work of the eigensolver for rows with clusters of one kind, for each eigenvector of an eigenproblem.

    Parameters
    ----------
    products : float
        Products of the matrix with one vector, for a million rows.
    steps : float
        Vectors that are orthogonalised, for a million rows: fewer than products, as a filter makes several in a step.
    growth : float
        Exponent of the number of rows with which both grow.
    """

    products: float
    steps: float
    growth: float

    def at(self, n: int) -> tuple[float, float]:
        """Products and steps for n rows."""
        factor = (n / 1e6) ** self.growth
        return self.products * factor, self.steps * factor


@dataclass(frozen=True)
class Rates:
    """Seconds that units of work take on a machine.

    Parameters
    ----------
    machine : str
        Its processor.
    seconds : dict of str to float
        Seconds of a unit on one thread, by ``stage.kind``; of a round of messages; and of a byte that is sent.
    cache_bytes : float
        Vectors of more bytes are partly read from memory; see :meth:`missed`.
    efficiency : float
        Share of their time in which several threads of a machine, of one process or of several, compute; they wait for
        memory in the rest.
    answers : dict of str to Answer
        Of rows with "clear" and with "unclear" clusters.
    probe_seconds : float
        What :func:`bigsmic.runtime.probe.probe` took.
    factor : float
        By which the work, but for messages, takes longer on the machine that is planned for.
    """

    machine: str
    seconds: Mapping[str, float]
    cache_bytes: float
    efficiency: float
    answers: Mapping[str, Answer]
    probe_seconds: float
    factor: float = 1.0

    @classmethod
    def stored(cls, path: Path = RATES) -> Self:
        """Rates from a file."""
        found = json.loads(path.read_text())
        return cls(**found | {"answers": {name: Answer(**answer) for name, answer in found["answers"].items()}})

    def missed(self, n_bytes: float) -> float:
        """Share of random reads of vectors of so many bytes that the cache does not serve."""
        return max(0.0, 1.0 - self.cache_bytes / max(n_bytes, 1.0))

    def cpu_seconds(self, work: Work) -> dict[str, float]:
        """CPU seconds of every stage."""
        found: dict[str, float] = {}
        for name, amount in work.items():
            stage, kind = name.split(".")
            found.setdefault(stage, 0.0)
            if kind not in (ROUNDS, SENT):
                found[stage] += self.factor * amount * self.seconds[name]
        return found

    def wall_seconds(self, work: Work, plan: Any) -> float:
        """Seconds on the workers and threads of a plan."""
        total = 0.0
        for name, amount in work.items():
            stage, kind = name.split(".")
            if kind == ROUNDS:
                total += amount * self.seconds[ROUNDS]
            elif kind == SENT:
                total += amount * self.seconds[SENT] / plan.size.n_workers
            else:
                total += self.factor * amount * self.seconds[name] / self._sharers(kind, plan, stage)
        return total

    def _sharers(self, kind: str, plan: Any, stage: str) -> float:
        """Threads that share a kind of work of a stage, as far as they do not wait for memory."""
        of_stage = plan.stages[stage]
        if kind in ALONE:
            return 1.0
        is_shared = of_stage.max_concurrency * plan.size.workers_per_machine > 1
        computing = plan.size.n_workers * of_stage.max_concurrency * (self.efficiency if is_shared else 1.0)
        return max(1.0, min(computing, of_stage.tasks))


@dataclass(frozen=True)
class Duration:
    """How long a fit is expected to take: from clusters that are clearly apart to those that are not.

    Parameters
    ----------
    seconds : tuple of float
        On the clock, with the workers and threads of the plan.
    cpu_seconds : tuple of float
        Of all threads together, but for messages between workers.
    stages : dict of str to tuple of float
        CPU seconds of every stage.
    machine : str
        Processor that the rates are from.
    factor : float
        How much slower the machine was found to be that is planned for; 1 if that was not measured.
    """

    seconds: tuple[float, float]
    cpu_seconds: tuple[float, float]
    stages: dict[str, tuple[float, float]]
    machine: str
    factor: float = 1.0


def duration_of(plan: Any, works: Sequence[Work], rates: Rates) -> Duration:
    """Predict the duration of a fit.

    Parameters
    ----------
    plan : bigsmic.runtime.planning.Plan
    works : sequence of Work
        That of rows with clear clusters, and with unclear ones.
    rates : Rates
    """
    cpu = [rates.cpu_seconds(work) for work in works]
    return Duration(
        seconds=_range(rates.wall_seconds(work, plan) for work in works),
        cpu_seconds=_range(sum(stages.values()) for stages in cpu),
        stages={name: _range(stages.get(name, 0.0) for stages in cpu) for name in plan.stages},
        machine=rates.machine,
        factor=rates.factor,
    )


def _range(values: Iterable[float]) -> tuple[float, float]:
    found = list(values)
    return min(found), max(found)
