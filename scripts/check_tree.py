#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what holds for every file of the project: licence line, length, name, words that must not stand there.

check_tree.py [root]     errors give exit code 1; warnings (a folder that grows too large) do not
"""

import collections
import pathlib
import re
import subprocess
import sys

MAX_LINES = 500
MAX_FILES = 12
MAX_BYTES = 1 << 20
SOURCE_SUFFIXES = {".cpp", ".hpp", ".h", ".c", ".cuh", ".cu", ".py", ".cmake"}
SOURCE_NAMES = {"CMakeLists.txt", "Makefile"}
BINARY_SUFFIXES = {".so", ".o", ".a", ".cubin", ".co", ".hsaco", ".pyc"}
# A name says a file's one job; these say that it has none, or several.
FORBIDDEN_STEMS = {"util", "utils", "misc", "helper", "helpers", "common2", "stuff", "new", "old", "tmp"}
# Written so that this file does not contain them.
FORBIDDEN_TEXT = {
    "an absolute path of somebody's machine": re.compile(r"(?<![\w.])/(home|Users|root" + r")/(?!someone\b)[\w.-]+"),
    "a note about work left over": re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b"),
}
SKIPPED_FOLDERS = {".git", ".venv", "__pycache__", "dist"}


def files_of(root):
    """Tracked and new files that git does not ignore; without git, everything outside build folders."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (root / ".git").exists():
        listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        names = sorted(set(listing.split("\0")) - {""})
        return [root / name for name in names if (root / name).is_file()]
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not SKIPPED_FOLDERS.intersection(path.relative_to(root).parts)
        and not path.relative_to(root).parts[0].startswith("build")
    ]


def check_text(path, text):
    lines = text.splitlines()
    script = bool(lines) and lines[0].startswith("#!")
    is_source = path.suffix in SOURCE_SUFFIXES or path.name in SOURCE_NAMES or script
    if is_source and text.strip():
        if not any("SPDX-License-Identifier: MIT" in line for line in lines[:3]):
            yield 1, "no SPDX-License-Identifier: MIT in the first three lines"
        if len(lines) > MAX_LINES:
            yield len(lines), f"{len(lines)} lines, more than {MAX_LINES}: split it by job"
        if path.stem in FORBIDDEN_STEMS:
            yield 1, f"the name {path.name} does not say what the file is for"
    for number, line in enumerate(lines, 1):
        for what, pattern in FORBIDDEN_TEXT.items():
            if pattern.search(line):
                yield number, f"{what}: {pattern.search(line).group(0)}"


def check(root):
    """(errors, warnings), each a list of (file, line, message)."""
    root = pathlib.Path(root).resolve()
    errors, warnings = [], []
    folders = collections.Counter()
    for path in files_of(root):
        relative = path.relative_to(root)
        if path.suffix in BINARY_SUFFIXES:
            errors.append((relative, 1, "a built binary is tracked"))
            continue
        data = path.read_bytes()
        if len(data) > MAX_BYTES:
            errors.append((relative, 1, f"{len(data)} bytes, more than 1 MiB"))
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            continue
        errors.extend((relative, line, message) for line, message in check_text(path, text))
        if path.suffix in SOURCE_SUFFIXES:
            folders[relative.parent] += 1
    for folder, count in sorted(folders.items()):
        if count > MAX_FILES:
            warnings.append((folder, 0, f"{count} source files, more than {MAX_FILES}: does the folder have two jobs?"))
    return errors, warnings


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]
    errors, warnings = check(root)
    for file, _, message in warnings:
        print(f"warning: {file}: {message}")
    for file, line, message in errors:
        print(f"{file}:{line}: {message}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
