# SPDX-License-Identifier: MIT
"""Tables and commands of the documentation against what they are made from, for check_docs.py.

Each check yields (file, line, message). What needs a build is passed over when there is none.
"""

import pathlib
import re
import shlex
import subprocess
import sys

LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
PROGRAM = re.compile(r"^(?:build/bin/)?tilewright$")
TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)|\bTYPED_TEST(?:_P)?\(\s*(\w+),\s*(\w+)\s*\)")


def environment_rows(source):
    """The rows of both tables of environment.cpp as Markdown, in order."""
    rows = []
    for name in ("kVariables", "kBorrowed"):
        start = source.find(f"{name}[] = {{")
        if start < 0:
            continue
        for entry in source[start : source.index("\n};", start)].split("\n    {")[1:]:
            # Literals that stand beside each other are one; a comma outside of them divides fields.
            fields, text, at = [], "", 0
            for match in LITERAL.finditer(entry):
                if "," in entry[at : match.start()]:
                    fields.append(text)
                    text = ""
                text += match.group(1)
                at = match.end()
            variable, *cells = [*fields, text]
            cells = [cell.replace("|", r"\|") for cell in cells]
            rows.append(f"| `{variable}` | {' | '.join(cells)} |")
    return rows


def check_environment(root):
    source, page = root / "src" / "core" / "environment.cpp", root / "docs" / "environment.md"
    if not source.exists() or not page.exists():
        return
    wanted = environment_rows(source.read_text(encoding="utf-8"))
    lines = page.read_text(encoding="utf-8").splitlines()
    shown = {line: number for number, line in enumerate(lines, 1) if line.startswith("| `")}
    for row in wanted:
        if row not in shown:
            yield page, 1, f"src/core/environment.cpp has the row: {row}"
    for row, number in shown.items():
        if row not in wanted:
            yield page, number, "src/core/environment.cpp has no such row"


def check_support_matrix(root):
    script = root / "scripts" / "support_matrix"
    if not script.exists() or not (root / "build" / "bin" / "tilewright_geninst").exists():
        return
    result = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    if result.returncode != 0:
        yield root / "README.md", 1, (result.stdout + result.stderr).strip()


def test_names(root):
    """Suite.Test of every GoogleTest below tests/."""
    names = set()
    for path in (root / "tests").rglob("*.cpp") if (root / "tests").exists() else []:
        for match in TEST.finditer(path.read_text(encoding="utf-8")):
            names.add(".".join(part for part in match.groups() if part))
    return names


class Program:
    """The program's own help, which says what commands and flags there are. Absent without a build."""

    def __init__(self, root):
        self.path = root / "build" / "bin" / "tilewright"
        self.texts = {}

    def help(self, command):
        if command not in self.texts:
            words = [str(self.path), *command.split(), "--help"]
            result = subprocess.run(words, capture_output=True, text=True)
            self.texts[command] = result.stdout if result.returncode == 0 else ""
        return self.texts[command]

    def fault(self, line):
        """Why a shell line that starts the program is wrong, or None."""
        if not self.path.exists():
            return None
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            return None
        while words and re.match(r"^\w+=", words[0]):
            words.pop(0)
        if not words or not PROGRAM.match(words[0]) or len(words) < 2:
            return None
        command = words[1] if re.match(r"^[a-z][a-z-]*$", words[1]) else ""
        if command and not self.help(command):
            return f"tilewright {command}: no such command"
        # A command of a group, such as `cache prune`; anything else there is an argument.
        if command and len(words) > 2 and re.match(r"^[a-z][a-z-]*$", words[2]) and self.help(f"{command} {words[2]}"):
            command = f"{command} {words[2]}"
        for word in words[1:]:
            flag = re.match(r"^--[a-z][a-z-]*", word)
            if flag and not re.search(rf"{flag.group(0)}(?![\w-])", self.help(command)):
                return f"tilewright {command} {flag.group(0)}: no such flag"
        return None


def missing_script(root, line):
    """The script of the project that a shell line starts and that does not exist, or None."""
    word = line.strip().split(" ")[0]
    if re.match(r"^scripts/[\w.-]+$", word) and not (root / word).exists():
        return word
    return None


def relative(root, faults):
    return [(pathlib.Path(file).relative_to(root), line, message) for file, line, message in faults]
