# SPDX-License-Identifier: MIT
"""Prints what counts of a ctest run: failures in full, why tests were skipped, and ctest's closing lines.

test_summary.py <ctest's output> <LastTest.log>
"""

import collections
import re
import sys


def failures_and_closing(output):
    """Everything but the lines that report a test started, passed or was skipped."""
    progress = re.compile(r"^( *Start +\d+:| *\d+/\d+ Test +#\d+: .*(Passed|Skipped)\b|Internal ctest|Test project)")
    return [line for line in output.splitlines() if not progress.match(line)]


def skip_reasons(log):
    """reason -> number of tests, from GoogleTest's, unittest's and pytest's reports and from skipped entries."""
    reasons = collections.Counter()
    # GoogleTest: "file:line: Skipped", the reason, "[  SKIPPED ] Suite.test".
    for match in re.finditer(r"^\S+:\d+: Skipped\n(.*?)\n+\[  SKIPPED \]", log, re.M | re.S):
        reasons[" ".join(match.group(1).split())] += 1
    for match in re.finditer(r"^SKIPPED \[(\d+)\] [^:]+(?::\d+)?: (.*)$", log, re.M):
        reasons[match.group(2).strip()] += int(match.group(1))
    for match in re.finditer(r"\.\.\. skipped ['\"](.*)['\"]$", log, re.M):
        reasons[match.group(1)] += 1
    for match in re.finditer(r"^skipped: (.*)$", log, re.M):
        reasons[match.group(1)] += 1
    return reasons


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        lines = failures_and_closing(file.read())
    try:
        with open(sys.argv[2], encoding="utf-8", errors="replace") as file:
            reasons = skip_reasons(file.read())
    except FileNotFoundError:
        reasons = {}
    if reasons:
        print("Skipped, and why:")
        for reason, count in sorted(reasons.items()):
            print(f"  {count:4d}  {reason}")
    text = "\n".join(lines).strip("\n")
    print(re.sub(r"\n{3,}", "\n\n", text))


if __name__ == "__main__":
    main()
