"""How a graph falls into parts that stay on the accelerator and parts that leave it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import networkx as nx

from graphaudit.audit.arithmetic import operations
from graphaudit.results import Islands
from graphaudit.rulebook import Answer, Rulebook, Support

if TYPE_CHECKING:
    from graphaudit.graphs.view import GraphView

HOSTS = ("AI CPU", "CPU")  # the engines that are no accelerator
_FOLDED = "Constant"  # becomes data when the model is compiled, and runs nowhere


def survey(graph: GraphView, rulebook: Rulebook) -> Islands:
    """The islands of `graph` under the answers of `rulebook`; takes time proportional to nodes and edges."""
    nodes = [n for n in graph.nodes if n.domain or n.op != _FOLDED]
    on = {n.name: _stays(rulebook.answer(n)) for n in nodes}
    arithmetic = {n.name: operations(n) for n in nodes}
    stages: dict[str, int] = {}
    parts: nx.Graph[str] = nx.Graph()
    crossings: Counter[str] = Counter()
    for name in on:  # in topological order, as the view's nodes are
        sources = [source for source in graph.digraph.predecessors(name) if source in on]
        # Along every path the stage grows by one where the side changes, so equal stages of a side run in one go.
        stages[name] = max((stages[s] + (on[s] is not on[name]) for s in sources), default=0)
        for source in sources:
            if on[source] is not on[name]:
                crossings[source if on[name] else name] += 1
        if on[name]:
            parts.add_node(name)
            parts.add_edges_from((s, name) for s in sources if on[s] and stages[s] == stages[name])
    worst = min(crossings, key=lambda name: (-crossings[name], name), default=None)
    return Islands(
        nodes=len(on),
        on=sum(on.values()),
        islands=nx.number_connected_components(parts),
        departures=len({stages[name] for name in stages if not on[name] and stages[name] > 0}),
        crossings=crossings.total(),
        worst=worst,
        worst_crossings=crossings[worst] if worst else 0,
        share=_share(sum(on.values()), len(on)),
        operations=sum(arithmetic.values()),
        operations_share=_share(sum(a for n, a in arithmetic.items() if on[n]), sum(arithmetic.values())),
    )


def _stays(answer: Answer) -> bool:
    return answer.support in (Support.SUPPORTED, Support.LIMITED) and answer.engine not in HOSTS


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
