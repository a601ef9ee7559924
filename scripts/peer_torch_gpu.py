# SPDX-License-Identifier: MIT
"""PyTorch's calls on a GPU for peer_torch.py, timed as `tilewright bench` times its own: in CUDA graphs."""

import functools
import math

GRAPH_US = 1500  # what one graph takes: the events around it do not count
MOST_CALLS = 2000
WARM_CALLS = 3


@functools.cache
def capturing_stream(torch):
    """One for all graphs, which then run on the default stream, as tilewright's do (docs/devices/cuda.md)."""
    return torch.cuda.Stream()


class GraphedCalls:
    """The fastest of `ways`, functions of the same result. Each call of its graph takes the next of `copies`."""

    def __init__(self, torch, ways, copies):
        self.torch, self.copies = torch, copies
        self.stream = capturing_stream(torch)
        self.name, self.graph, self.calls = "", None, 0
        fastest, refused = math.inf, []
        for name, way in ways.items():
            try:
                graph, calls, us = self.captured(way)
            except Exception as error:  # what the compiler refuses, eager code may do
                refused.append(f"{name}: {type(error).__name__}: {error}")
                continue
            if us < fastest:
                self.name, self.graph, self.calls, fastest = name, graph, calls, us
        if self.graph is None:
            raise RuntimeError("; ".join(refused))

    def captured(self, way):
        """A graph that is long enough, its calls, and what one takes."""
        torch = self.torch
        for _ in range(WARM_CALLS):
            way(self.copies[0])
        torch.cuda.synchronize()
        calls = len(self.copies)
        while True:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                for turn in range(calls):
                    way(self.copies[turn % len(self.copies)])
            self.microseconds(graph, calls)  # brings in its code
            us = self.microseconds(graph, calls)
            wanted = min(MOST_CALLS, max(len(self.copies), math.ceil(GRAPH_US / us)))
            if calls >= wanted:
                return graph, calls, us
            calls = wanted

    def microseconds(self, graph=None, calls=None):
        torch = self.torch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        (graph or self.graph).replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / (calls or self.calls)
