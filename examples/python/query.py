# SPDX-License-Identifier: MIT
"""Before a model serves: prepare the problems it will meet, ask what would run, and why."""

import numpy as np
import tilewright

for device in tilewright.devices():
    print(device)

weight = np.zeros((256, 512), np.float32)
for tokens in (1, 16, 128):
    x = np.zeros((tokens, 512), np.float32)
    tilewright.prepare(x, weight.T, activation="silu")
    result = tilewright.query(x, weight.T, activation="silu")
    print(f"M = {tokens}: {result.recipe} ({result.source})")
    assert result.recipe

print()
print(tilewright.explain(x, weight.T, activation="silu"))

before = tilewright.counters()
tilewright.gemm(x, weight.T, activation="silu")
after = tilewright.counters()
assert after["plan_misses"] == before["plan_misses"], "prepared problems are found"
print("ok")
