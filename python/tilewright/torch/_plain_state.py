# SPDX-License-Identifier: MIT
"""A module that holds its weight packed, and whose state_dict has it plain."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class PlainStateDict(nn.Module):
    """`weight` unpacks, `set_weight` packs; the packed bytes are a buffer that no state_dict has."""

    packed: torch.Tensor

    @property
    def weight(self) -> torch.Tensor:
        """The plain weight, unpacked anew each time."""
        raise NotImplementedError

    def set_weight(self, weight: torch.Tensor) -> None:
        """Packs a weight."""
        raise NotImplementedError

    def _where_it_is_packed(self, weight: torch.Tensor) -> torch.Tensor:
        """A loaded weight, as this module has its own."""
        return weight.to(self.packed.device)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "weight"] = self.weight
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        key = prefix + "weight"
        weight = state_dict.get(key)
        if weight is not None:
            assign = local_metadata.get("assign_to_params_buffers", False)
            try:
                self.set_weight(weight if assign else self._where_it_is_packed(weight))
            except (RuntimeError, ValueError, NotImplementedError) as error:  # the last: no values on the meta device
                error_msgs.append(f"While packing '{key}': {error}")
        elif strict:
            missing_keys.append(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if key in unexpected_keys:
            unexpected_keys.remove(key)
