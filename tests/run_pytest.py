# SPDX-License-Identifier: MIT
"""Runs one test file under pytest. A file that skipped itself as a whole ends with 77: skipped."""

import sys

import pytest

SKIPPED = 77

if __name__ == "__main__":
    code = pytest.main(["-q", "-rs", "-p", "no:cacheprovider", *sys.argv[1:]])
    sys.exit(SKIPPED if code == pytest.ExitCode.NO_TESTS_COLLECTED else code)
