"""Sentences of pages are short: 16 words on average, and fewer than one of twenty has more than 30."""

from pathlib import Path

import pytest

from tests.harness.prose import LONG, ROOT, lengths_of, pages, sentences_of, words_of

PAGE = """---
title: none of this counts
---

# A heading of four words

One sentence of a [link of five words](https://example.org/a_b.md). `a code span` is one word, e.g. here!

* **An item** without an end
* Two sentences. In an item: 3.5 is one number.

| a table | counts not |
|---|---|

```python
>>> nor does code. It Really does not.
```

    nor indented code

:::{toctree}
:maxdepth: 1

some/page
:::

::::{note} Note
:class: wide

Prose in a directive.
::::

![Nor the words of a picture](picture.svg)
"""


def test_sentences_of_a_page_are_its_prose_alone() -> None:
    assert [" ".join(sentence.split()) for sentence in sentences_of(PAGE)] == [
        "One sentence of a link of five words.",
        "Code is one word, e.g here!",
        "An item without an end",
        "Two sentences.",
        "In an item: 3.5 is one number.",
        "Prose in a directive.",
    ]


def test_lengths_are_means_and_shares() -> None:
    long = " ".join(["word"] * (LONG + 1)) + "."
    assert lengths_of(f"{long} Word word.") == (2, (LONG + 3) / 2, 0.5)
    assert lengths_of("") == (0, 0.0, 0.0)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_sentences_of_a_page_are_short(page: Path) -> None:
    text = page.read_text()
    lengths = lengths_of(text)
    long = [sentence for sentence in sentences_of(text) if len(words_of(sentence)) > LONG]
    assert lengths.is_readable, "\n".join([f"mean {lengths.mean:.1f}, {lengths.long:.1%} long:", *long])
