#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks files that are compiled together (cmake/unity.cmake): no two of a library or program give one name to
something of their own. The compiler refuses most such pairs, but only of those that are neighbours today, and takes
functions for overloads that were meant: a call may then choose the neighbour's.

check_neighbours.py [build folder]     exit code 1 if there is such a name
"""

import collections
import pathlib
import re
import sys

UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}  // namespace$", re.M | re.S)
# What stands at the beginning of a line, as clang-format leaves it: functions, constants, types.
NAMES = [
    re.compile(r"^(?:[\w:<>*&,\[\]]+ )+[*&]?(\w+)\(", re.M),
    re.compile(r"^(?:static )?const(?:expr|init)? [^=;({]*?\b(\w+)(?:\[[^\]]*\])* ?[={]", re.M),
    re.compile(r"^(?:class|struct|enum class|enum) (\w+)\b", re.M),
]


def own_names(text):
    """Of functions, constants and types in the unnamed namespaces of a file."""
    return {name for block in UNNAMED.findall(text) for pattern in NAMES for name in pattern.findall(block)}


def check(texts):
    """Yields (name, files) for each name that several of {file: text} have."""
    files = collections.defaultdict(list)
    for file, text in texts.items():
        for name in own_names(text):
            files[name].append(file)
    for name, found in sorted(files.items()):
        if len(found) > 1:
            yield name, sorted(found)


def neighbours(build):
    """The files of each target that are compiled together with others."""
    targets = collections.defaultdict(dict)
    for unit in sorted(build.glob("*/CMakeFiles/*.dir/Unity/*.cxx")):
        for file in re.findall(r'#include "(.*)"', unit.read_text(encoding="utf-8")):
            if "site-packages" not in file:
                targets[unit.parts[-3]][file] = pathlib.Path(file).read_text(encoding="utf-8")
    return targets.values()


def main():
    found = False
    for texts in neighbours(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")):
        for name, files in check(texts):
            found = True
            print(f"{files[0]}: '{name}' is a name in {', '.join(files[1:])} too: rename one")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
