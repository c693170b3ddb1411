"""Groups of actors on threads of the test, with queues between them."""

import queue
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from bigsmic.engines.threads import ThreadEngine
from bigsmic.numerics.row_blocks import Shard, join_sums, run_calls

PATIENCE = 20  # seconds, after which a place that waits for another one has a bug


class QueuePeers:
    """Places that hand arrays over in memory."""

    def __init__(self, number, cuts, queues):
        self.number, self.cuts, self.queues = number, cuts, queues

    def exchange(self, outgoing, senders):
        for j, array in outgoing.items():
            self.queues[self.number, j].put(array.copy())
        return {j: self.queues[j, self.number].get(timeout=PATIENCE) for j in senders}


class ThreadGroup:
    """Actors that make their calls at the same time."""

    def __init__(self, pool, actors):
        self.pool, self.actors = pool, actors

    def call(self, *calls):
        return list(self.pool.map(lambda actor: run_calls(actor, calls), self.actors))

    def call_sum(self, *calls):
        return join_sums(self.call(*calls))


@contextmanager
def group_of(make, bounds, inner_cuts=()):
    """Group whose places have the blocks between the cuts; one place without cuts."""
    cuts, queues = [0, *inner_cuts, len(bounds) - 1], defaultdict(queue.Queue)
    n_workers = len(cuts) - 1
    with ThreadPoolExecutor(n_workers) as pool, ThreadEngine(1) as engine:

        def place(j):
            peers = QueuePeers(j, cuts, queues) if n_workers > 1 else None
            return make(Shard(engine, bounds, range(cuts[j], cuts[j + 1]), peers))

        for i in range(n_workers):
            for j in range(n_workers):
                queues[i, j]  # made before any thread looks for it
        yield ThreadGroup(pool, list(pool.map(place, range(n_workers))))
