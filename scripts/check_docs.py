#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the documentation against the project: links, files, tests, make targets, variables, commands and flags that
it names, the tables that follow from the source, and words that say nothing.

check_docs.py [root]     prints each fault as file:line: message; exit code 1 if there is one
"""

import pathlib
import re
import sys

import docs_tables
from check_tree import files_of

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
VARIABLE = re.compile(r"\bTILEWRIGHT_[A-Z][A-Z0-9_]*\b")
# A path of the project: known first folder, no wildcard or placeholder.
PATH = re.compile(r"^(?:src|include|kernels|scripts|tests|cli|python|docs|models|tuned|cmake|examples|bench)/[\w./-]+$")
FENCE = re.compile(r"^\s*```")
TEST = re.compile(r"^[A-Z]\w+\.[A-Z]\w+$")
# Words of advertisements, and sentences chained by dashes.
FORBIDDEN = re.compile(
    r"\b(blazing|lightning[- ]fast|cutting[- ]edge|state[- ]of[- ]the[- ]art|world[- ]class|best[- ]in[- ]class"
    r"|seamless(?:ly)?|effortless(?:ly)?|game[- ]chang\w+|revolution\w+|supercharg\w+|next[- ]gen\w*|unparalleled"
    r"|unleash\w*|turbo\w*)\b|\u2014.*\u2014",
    re.IGNORECASE,
)


def anchors(text):
    """The anchors that a Markdown page's headings make, as forges make them."""
    found = set()
    for line in text.splitlines():
        if re.match(r"^#+ ", line):
            title = re.sub(r"[`*]", "", line.lstrip("#").strip().lower())
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


def known_variables(root):
    """Environment variables that the library reads, build options, and macros of public headers."""
    names = set()
    for path in files_of(root):
        if path.suffix in {".cpp", ".hpp", ".h", ".cmake", ".py", ".in"} or path.name == "CMakeLists.txt":
            names.update(VARIABLE.findall(path.read_text(encoding="utf-8", errors="replace")))
    return names


def make_targets(root):
    makefile = root / "Makefile"
    return set(re.findall(r"^([a-z-]+):", makefile.read_text(encoding="utf-8"), re.M)) if makefile.exists() else set()


def check_link(root, page, target):
    """Why a link is broken, or None. Links to other sites are not followed."""
    if re.match(r"^[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.exists() or not path.is_relative_to(root):
        return f"link to {target}: no such file"
    if anchor and path.suffix == ".md" and anchor not in anchors(path.read_text(encoding="utf-8")):
        return f"link to {target}: no such heading"
    return None


def check_page(root, page, variables, targets, tests, program):
    fenced = False
    # A guide to adding something shows files that do not exist yet.
    makes_files = page.name.startswith("add-")
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
            continue
        if not fenced:
            for target in LINK.findall(line):
                why = check_link(root, page, target)
                if why:
                    yield number, why
            for code in CODE.findall(line):
                if not makes_files and PATH.match(code) and not (root / code.rstrip("/")).exists():
                    yield number, f"`{code}` does not exist"
                if TEST.match(code) and tests and code not in tests:
                    yield number, f"`{code}` is no test"
        commands = [line] if fenced else CODE.findall(line)
        for command in commands:
            fault = program.fault(command)
            if fault:
                yield number, fault
            script = docs_tables.missing_script(root, command) if fenced else None
            if script:
                yield number, f"{script} does not exist"
        word = FORBIDDEN.search(line)
        if word:
            yield number, f"'{word.group(0)}' says nothing; say what it does"
        for target in MAKE.findall(line) if fenced else [t for c in CODE.findall(line) for t in MAKE.findall(c)]:
            if targets and target not in targets:
                yield number, f"make {target}: no such target"
        for name in VARIABLE.findall(line):
            if name not in variables:
                yield number, f"{name} is read nowhere"


def check(root):
    """Every fault below `root` as (file, line, message)."""
    root = pathlib.Path(root).resolve()
    variables, targets = known_variables(root), make_targets(root)
    tests, program = docs_tables.test_names(root), docs_tables.Program(root)
    pages = [path for path in files_of(root) if path.suffix == ".md"]
    faults = []
    for page in pages:
        relative = page.relative_to(root)
        found = check_page(root, page, variables, targets, tests, program)
        faults.extend((relative, line, message) for line, message in found)
    for table in (docs_tables.check_environment, docs_tables.check_support_matrix):
        faults.extend(docs_tables.relative(root, table(root)))
    return faults


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]
    faults = check(root)
    for file, line, message in faults:
        print(f"{file}:{line}: {message}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
