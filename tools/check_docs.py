#!/usr/bin/env python3
"""Fails if the documentation has drifted from the tree. It looks for

- links to a file that is not there, or to a heading that its page does not have
- pages of docs/ that any file names but that are not there, and pages that docs/README.md does not lead to
- pages of more than 250 lines, and code blocks that are no longer the file that they show

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
NAMED = re.compile(r"\bdocs/[\w./-]*\w\.(?:md|svg|png|gif)\b")
MOST_LINES = 250


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "--", *patterns], check=True, capture_output=True,
                            text=True)
    return listed.stdout.split()


def anchors(text):
    """The anchors that headings of a page give."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


def target_of(page, link):
    """The path in the tree that a link of a page leads to, and its anchor."""
    target, _, anchor = link.partition("#")
    parts = []
    for part in ((Path(page).parent / target) if target else Path(page)).parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts), anchor


def links_of(text):
    return [link for both in LINK.findall(CODE.sub("", text)) for link in both
            if link and not re.match(r"[a-z]+:", link)]


def faults(page, text, exists, read):
    """One line for each fault of a page; exists(path) answers for files and folders, read(path) gives a page's text."""
    found = []
    lines = text.count("\n")
    if lines > MOST_LINES:
        found.append(f"{page}: has {lines} lines, at most {MOST_LINES} are easy to read; divide it")
    for link in links_of(text):
        name, anchor = target_of(page, link)
        if not exists(name):
            found.append(f"{page}: links to {link}, which is not in the tree")
        elif anchor and name.endswith(".md") and anchor not in anchors(text if name == page else read(name)):
            found.append(f"{page}: links to {link}, but the page has no such heading")
    for _, source, block in SHOWN.findall(text):
        if not exists(source) or Path(source).read_text() != block:
            found.append(f"{page}: shows {source}, but not as it is")
    return found


def names_without_page(file, text, exists):
    """One line for each page of docs/ that a file of any kind names but that does not exist."""
    return [f"{file}: names {name}, which is not in the tree" for name in sorted(set(NAMED.findall(text)))
            if not exists(name)]


def unreachable(pages, read):
    """Pages of docs/ that no chain of links from docs/README.md leads to."""
    seen, left = set(), ["docs/README.md"]
    while left:
        page = left.pop()
        if page not in seen and page in pages:
            seen.add(page)
            left += [target_of(page, link)[0] for link in links_of(read(page))]
    return [f"{page}: no link from docs/README.md leads to it"
            for page in sorted(pages) if page.startswith("docs/") and page not in seen]


def self_test():
    pages = {"a.md": "# A b\n", "docs/b.md": "# C\n"}
    exists = {*pages, "docs"}.__contains__

    def found(page, text):
        return len(faults(page, text, exists, pages.get))

    assert found("a.md", "# A b\n[b](docs/b.md) [a](#a-b) `[c](c.md)` [w](https://w.org/x)") == 0
    assert found("docs/b.md", "[a](../a.md#a-b) [d](../docs)") == 0
    assert found("a.md", "[c](c.md)") == 1
    assert found("docs/b.md", '<img src="no.png">') == 1
    assert found("a.md", "[a](#gone)") == 1
    assert found("docs/b.md", "[a](../a.md#gone)") == 1
    assert found("a.md", "<!-- from x.cc -->\n```cpp\nint\n```\n") == 1
    assert found("a.md", "x\n" * 250) == 0 and found("a.md", "x\n" * 251) == 1
    assert names_without_page("x.cc", "// see docs/b.md", exists) == []
    assert len(names_without_page("x.cc", "// see docs/gone.md.", exists)) == 1
    assert unreachable({"docs/README.md", "docs/b.md"}, {"docs/README.md": "[b](b.md)", "docs/b.md": ""}.get) == []
    assert len(unreachable({"docs/README.md", "docs/b.md"}, {"docs/README.md": "", "docs/b.md": ""}.get)) == 1


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
    def read(path):
        return Path(path).read_text()

    pages = [page for page in tracked("*.md") if Path(page).exists()]
    found = [fault for page in pages for fault in faults(page, read(page), exists, read)]
    found += unreachable(set(pages), read)
    for file in tracked(":!tools/check_docs.py"):
        try:
            found += names_without_page(file, read(file), exists)
        except (OSError, UnicodeDecodeError):  # gone, a folder, or no text
            continue
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
