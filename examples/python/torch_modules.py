# SPDX-License-Identifier: MIT
"""A gated MLP with packed weights, made from ordinary layers, compiled in one graph, saved as an ordinary one."""

try:
    import torch
except ImportError:
    print("PyTorch is not installed")
    print("ok")
    raise SystemExit from None

import tilewright.torch as tw
from torch import nn


class Mlp(nn.Module):
    """As Llama has it."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(features, hidden, bias=False), nn.Linear(features, hidden, bias=False)
        self.down = nn.Linear(hidden, features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


torch.manual_seed(0)
mlp = Mlp(64, 96)
packed = nn.Sequential(tw.GatedLinear.from_linears(mlp.gate, mlp.up, "silu"), tw.Linear.from_linear(mlp.down))
print(packed)

with torch.inference_mode():
    compiled = torch.compile(packed, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (1, 5, 32):
        x = torch.randn(tokens, 64)
        error = float((compiled(x) - mlp(x)).abs().max())
        print(f"{tokens} tokens: largest error {error:.1e}")
        assert error < 1e-5, error

    # The state_dict holds plain weights: any torch.nn.Linear loads them.
    down = nn.Linear(96, 64, bias=False)
    down.load_state_dict(packed[1].state_dict())
    assert torch.equal(down.weight, mlp.down.weight)

    # Or the whole model at once; what torch.nn.Linear holds stays in its place in checkpoints.
    model = tw.convert(mlp)
    print(model)

print("ok")
