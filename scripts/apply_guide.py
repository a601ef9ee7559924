#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does what a guide of docs/ says: writes its files, makes its edits.

usage: apply_guide.py GUIDE [TREE]      TREE is the project's root, by default this one

Three kinds of fenced blocks count, each named by the comment on the line before it:

  <!-- file: PATH -->    a whole new file; it must not exist
  <!-- edit: PATH -->    a diff block; its context and removed lines must stand in the file exactly once
  <!-- run -->           commands, one a line, to be run in TREE (printed, not run)

Nothing is written unless everything applies. Faults are printed as GUIDE:LINE: message.
"""

import dataclasses
import pathlib
import re
import sys

MARK = re.compile(r"^<!-- (file|edit|run)(?:: (\S+))? -->$")
FENCE = re.compile(r"^(`{3,})\w*$")


class GuideError(Exception):
    def __init__(self, line, message):
        super().__init__(message)
        self.line = line


@dataclasses.dataclass
class Block:
    kind: str  # "file", "edit" or "run"
    path: str  # "" for "run"
    line: int  # of the mark
    body: list  # lines without their ends


def parse(text):
    """The guide's marked blocks, in order."""
    lines = text.splitlines()
    blocks = []
    at = 0
    while at < len(lines):
        mark = MARK.match(lines[at])
        if not mark:
            if lines[at].startswith("<!-- ") and re.match(r"<!-- ?(file|edit|run)\b", lines[at]):
                raise GuideError(at + 1, f"malformed mark: {lines[at]}")
            fence = FENCE.match(lines[at])
            at = end_of_block(lines, at) + 1 if fence else at + 1
            continue
        kind, path = mark.group(1), mark.group(2) or ""
        if bool(path) != (kind != "run"):
            raise GuideError(at + 1, f"malformed mark: {lines[at]}")
        if at + 1 >= len(lines) or not FENCE.match(lines[at + 1]):
            raise GuideError(at + 1, "no fenced block after the mark")
        end = end_of_block(lines, at + 1)
        blocks.append(Block(kind, path, at + 1, lines[at + 2 : end]))
        at = end + 1
    return blocks


def end_of_block(lines, start):
    """The index of the line that closes the fence at `start`."""
    fence = FENCE.match(lines[start]).group(1)
    for at in range(start + 1, len(lines)):
        if lines[at] == fence:
            return at
    raise GuideError(start + 1, "the block is not closed")


def edited(block, text):
    """`text` after a diff block."""
    for number, line in enumerate(block.body, block.line + 2):
        if line and line[0] not in " +-":
            raise GuideError(number, "a line of an edit starts with a space, + or -")
    old = [line[1:] for line in block.body if not line.startswith("+")]
    new = [line[1:] for line in block.body if not line.startswith("-")]
    if not old or old == new:
        raise GuideError(block.line, "an edit needs lines that show where, and a change")
    lines = text.splitlines()
    places = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    if len(places) != 1:
        raise GuideError(block.line, f"{block.path} has the place of this edit {len(places)} times")
    at = places[0]
    return "\n".join(lines[:at] + new + lines[at + len(old) :]) + "\n"


def plan(blocks, root):
    """path -> new text, for all file and edit blocks."""
    texts = {}
    for block in blocks:
        if block.kind == "run":
            continue
        target = root / block.path
        if not target.resolve().is_relative_to(root.resolve()):
            raise GuideError(block.line, f"{block.path} lies outside the tree")
        if block.kind == "file":
            if target.exists() or block.path in texts:
                raise GuideError(block.line, f"{block.path} exists already")
            texts[block.path] = "\n".join(block.body) + "\n"
            continue
        if block.path not in texts:
            if not target.is_file():
                raise GuideError(block.line, f"{block.path} does not exist")
            texts[block.path] = target.read_text(encoding="utf-8")
        texts[block.path] = edited(block, texts[block.path])
    return texts


def apply(guide, root):
    """Applies a guide's text to a tree. Returns its commands, and the paths that were written."""
    root = pathlib.Path(root)
    blocks = parse(guide)
    texts = plan(blocks, root)
    for path, text in texts.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    commands = [line for block in blocks if block.kind == "run" for line in block.body if line.strip()]
    return commands, list(texts)


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    guide = pathlib.Path(arguments[0])
    root = pathlib.Path(arguments[1]) if len(arguments) == 2 else pathlib.Path(__file__).resolve().parents[1]
    try:
        commands, paths = apply(guide.read_text(encoding="utf-8"), root)
    except GuideError as error:
        print(f"{guide}:{error.line}: {error}", file=sys.stderr)
        return 1
    for path in paths:
        print(f"wrote {path}")
    if commands:
        print("now run:")
        print("\n".join(f"  {command}" for command in commands))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
