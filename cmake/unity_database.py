#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the compile commands of a build folder with one entry a source file, for tools that ask by file.

    cmake/unity_database.py FOLDER   reads FOLDER/compile_commands.json, writes FOLDER/tidy/compile_commands.json

A build that compiles neighbouring files together (cmake/unity.cmake) has entries of those groups alone; each of
their files gets the command of its group, under its own name.
"""

import json
import pathlib
import re
import sys


def files_of(group):
    """The files that a group includes."""
    return re.findall(r'^#include "(.+)"$', group.read_text(encoding="utf-8"), re.MULTILINE)


def expand(entries):
    for entry in entries:
        path = pathlib.Path(entry["directory"], entry["file"])
        # Of g++'s options the one that clang-tidy stops at.
        entry = {**entry, "command": re.sub(r" -mmem\w+-strategy=\S+", "", entry["command"])}
        if not re.search(r"[/\\]Unity[/\\]unity_", entry["file"]):
            yield entry
            continue
        for file in files_of(path):
            yield {**entry, "file": file, "command": entry["command"].replace(entry["file"], file)}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: cmake/unity_database.py FOLDER")
    folder = pathlib.Path(sys.argv[1])
    entries = json.loads((folder / "compile_commands.json").read_text(encoding="utf-8"))
    (folder / "tidy").mkdir(exist_ok=True)
    expanded = json.dumps(list(expand(entries)), indent=1)
    (folder / "tidy" / "compile_commands.json").write_text(expanded, encoding="utf-8")


if __name__ == "__main__":
    main()
