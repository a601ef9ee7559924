# SPDX-License-Identifier: MIT
"""The one exception type of the package."""

from __future__ import annotations


class Error(RuntimeError):
    """Whatever tilewright refuses or fails at. The message names operator, argument, value and allowed set."""

    code: str
    """The status' name: "invalid_argument", "unsupported", "out_of_memory", "compile_failed" ..."""

    def __init__(self, message: str, code: str = "internal") -> None:
        super().__init__(message)
        self.code = code


class InvalidArgument(Error, ValueError):
    """The call breaks the operator's contract. Also a ValueError."""

    def __init__(self, message: str, code: str = "invalid_argument") -> None:
        super().__init__(message, code)
