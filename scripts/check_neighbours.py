#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks files that are compiled together (cmake/unity.cmake): no two give one name to functions of their own. The
compiler refuses most such pairs, but takes overloads for meant: a call may then choose the neighbour's.

check_neighbours.py [build folder]     exit code 1 if there is such a name
"""

import collections
import pathlib
import re
import sys

UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}  // namespace$", re.M | re.S)
FUNCTION = re.compile(r"^(?:[\w:<>*&,\[\]]+ )+[*&]?(\w+)\(", re.M)


def own_functions(path):
    """Names of functions in the unnamed namespaces of a file, as clang-format leaves it."""
    text = path.read_text(encoding="utf-8")
    return {name for block in UNNAMED.findall(text) for name in FUNCTION.findall(block)}


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    found = False
    for unit in sorted(build.glob("*/CMakeFiles/*.dir/Unity/*.cxx")):
        files = collections.defaultdict(list)
        for name in re.findall(r'#include "(.*)"', unit.read_text(encoding="utf-8")):
            if "site-packages" in name:
                continue
            for function in own_functions(pathlib.Path(name)):
                files[function].append(name)
        for function, names in sorted(files.items()):
            if len(names) > 1:
                found = True
                print(f"{names[0]}: '{function}' is also a function of {', '.join(names[1:])}: rename one")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
