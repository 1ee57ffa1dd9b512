"""How long the sentences of a page are.

    python -m tests.harness.prose               # every page that users read
    python -m tests.harness.prose README.md     # some pages, with their long sentences

Code, tables, headings, comments, pictures, directives and the addresses of links are no prose. A code span and a
formula are one word each. A paragraph ends a sentence, and so does an item of a list.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LONGEST_MEAN = 16.0
"""Words of a sentence, on average over a page."""
LONG = 30
"""A sentence of more words than this is long."""
LARGEST_SHARE = 0.05
"""A smaller share of the sentences of a page may be long."""

_REMOVED = tuple(
    re.compile(pattern, re.MULTILINE | re.DOTALL)
    for pattern in (
        r"\A---\n.*?^---\n",  # front matter
        r"^ *(`{3,})[^`\n]*\n.*?^ *\1 *$",  # code, also inside of lists
        r"^(:{3,})\{toctree\}.*?^\1 *$",
        r"^:{3,}.*?$",  # the fence of another directive
        r"^:[\w-]+:.*?$",  # an option of a directive
        r"<!--.*?-->",
        r"^#+ .*?$",
        r"^ *\|.*?$",  # a line of a table
        r"(?<=\n\n)(?:    [^\n]*\n)+(?=\n)",  # indented code
        r"!\[[^\]]*\]\([^)]*\)",
    )
)
_WORDS = (
    (re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)"), r"\1"),  # the text of a link
    (re.compile(r"\{[\w:]+\}`([^`<]*)(?:<[^>]*>)?`"), r"\1"),  # the text of a role
    (re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL), "Code"),
    (re.compile(r"\$[^$\n]+\$"), "Formula"),
    (re.compile(r"[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}"), ""),
)
_ITEM = re.compile(r"^\s*(?:[*+-]|\d+\.) +", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])[)\"']*\s+(?=[\"'(]*[A-Z0-9])")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf)\.")


class Lengths(NamedTuple):
    """The sentences of a page in figures."""

    sentences: int
    mean: float
    long: float

    @property
    def is_readable(self) -> bool:
        """Whether the page keeps the rule."""
        return self.mean <= LONGEST_MEAN and self.long < LARGEST_SHARE


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of a page in Markdown."""
    for pattern in _REMOVED:
        text = pattern.sub("", text)
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    text = _ABBREVIATION.sub(r"\1", _ITEM.sub("\n\n", text))
    for paragraph in re.split(r"\n\s*\n", text):
        yield from filter(words_of, (sentence.strip() for sentence in _END.split(paragraph)))


def words_of(sentence: str) -> list[str]:
    """The words of a sentence: whatever stands between spaces and has a letter or a digit."""
    return [word for word in sentence.split() if re.search(r"\w", word)]


def lengths_of(text: str) -> Lengths:
    """The figures of a page in Markdown; zeros if it has no prose."""
    counts = [len(words_of(sentence)) for sentence in sentences_of(text)]
    if not counts:
        return Lengths(0, 0.0, 0.0)
    return Lengths(len(counts), sum(counts) / len(counts), sum(count > LONG for count in counts) / len(counts))


def pages() -> list[Path]:
    """Every page that users read: the README, and all of `docs` but decisions and what a build writes."""
    others = {"adr", "_build", "gallery", "measured"}
    found = [path for path in (ROOT / "docs").rglob("*.md") if not others & {*path.relative_to(ROOT / "docs").parts}]
    return [ROOT / "README.md", *sorted(found)]


def show(paths: list[Path], *, sentences: bool) -> None:
    """Prints the figures of pages, and their long sentences if asked."""
    for path in paths:
        text = path.read_text()
        lengths = lengths_of(text)
        mark = " " if lengths.is_readable else "!"
        figures = f"{lengths.sentences:4} sentences, mean {lengths.mean:4.1f}, {lengths.long:6.1%} long"
        sys.stdout.write(f"{mark} {figures}  {path}\n")
        if sentences:
            for sentence in sentences_of(text):
                if len(words_of(sentence)) > LONG:
                    sys.stdout.write(f"    {len(words_of(sentence))}: {' '.join(sentence.split())}\n")


if __name__ == "__main__":
    show([Path(name) for name in sys.argv[1:]] or pages(), sentences=len(sys.argv) > 1)
