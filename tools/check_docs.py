#!/usr/bin/env python3
"""Fails if a Markdown page links to a file that is not there, or shows code that has changed.

A page that shows a source file says so above the code block:
    <!-- from examples/sparse_attention.cc -->
and then the block must be that file, letter by letter; --fix makes it so.
"""

import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)\)|<(?:img|a)\s[^>]*(?:src|href)=\"([^\"]+)\"")
SHOWN = re.compile(r"(<!-- from (\S+) -->\n```\w*\n)(.*?)```", re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "--", *patterns], check=True, capture_output=True,
                            text=True)
    return listed.stdout.split()


def anchors(text):
    """The anchors that headings of a page give."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


def faults(page, text, exists):
    """One line for each broken link or stale block; exists(path) answers for files and folders."""
    found = []
    for plain, html in LINK.findall(CODE.sub("", text)):
        target, _, anchor = (plain or html).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (Path(page).parent / target) if target else Path(page)
        parts = []
        for part in path.parts:
            if part == ".." and parts:
                parts.pop()
            elif part != ".":
                parts.append(part)
        name = "/".join(parts)
        if not exists(name):
            found.append(f"{page}: links to {target}, which is not in the tree")
        elif anchor and name.endswith(".md") and name == page and anchor not in anchors(text):
            found.append(f"{page}: links to #{anchor}, which is no heading of it")
    for _, source, block in SHOWN.findall(text):
        if not exists(source) or Path(source).read_text() != block:
            found.append(f"{page}: shows {source}, but not as it is")
    return found


def self_test():
    exists = {"a.md", "docs", "docs/b.md"}.__contains__
    assert faults("a.md", "# A b\n[b](docs/b.md) [a](#a-b) `[c](c.md)` [w](https://w.org/x)", exists) == []
    assert faults("docs/b.md", "[a](../a.md#x) [d](../docs)", exists) == []
    assert len(faults("a.md", "[c](c.md)", exists)) == 1
    assert len(faults("docs/b.md", '<img src="no.png">', exists)) == 1
    assert len(faults("a.md", "[a](#gone)", exists)) == 1
    assert len(faults("a.md", "<!-- from x.cc -->\n```cpp\nint\n```\n", exists)) == 1


def refreshed(text):
    """The page with every shown file as it is now."""
    def now(match):
        return f"{match.group(1)}{Path(match.group(2)).read_text()}```"
    return SHOWN.sub(now, text)


def main():
    self_test()
    files = set(tracked())
    folders = {str(parent) for file in files for parent in Path(file).parents}
    exists = (files | folders).__contains__
    if "--fix" in sys.argv:
        for page in tracked("*.md"):
            Path(page).write_text(refreshed(Path(page).read_text()))
    found = [fault for page in tracked("*.md") if Path(page).exists()
             for fault in faults(page, Path(page).read_text(), exists)]
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
