# SPDX-License-Identifier: MIT
"""python -m tilewright.bench: tilewright and PyTorch timed in one process, in turns, on the same threads."""
