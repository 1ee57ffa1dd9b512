"""Constants that users replace in parts, floors of what is computed from them, and manifests that say so."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plica.errors import InputError, NativeFileError, UnsupportedError
from plica.runtime.checks import check_manifest
from plica.runtime.manifest import NonNegativeCheck
from plica.runtime.module import NativeModule, load
from tests.harness.native_files import MANIFEST, SHIFT, native_file, parts


class TestParts:
    """Constants that users replace in parts, and numbers that may not become negative."""

    @pytest.fixture
    def module(self, tmp_path: Path) -> NativeModule:
        """`shift` in three parts, one of which stays; what is computed of it has a floor."""
        weight, shift, doubled = MANIFEST.tensors
        shift = replace(shift, parts=("first", "", "third"))
        checks = (NonNegativeCheck("doubled", ("one", "two", "three")),)
        return load(native_file(tmp_path / "x.plicab", tensors=(weight, shift, doubled), non_negative=checks))

    def test_parts(self, module: NativeModule) -> None:
        assert list(module.constants) == ["first", "third"]
        x = np.zeros((1, 3), np.float32)
        module.update(third=7)
        assert np.array_equal(module.shifted(x), [[2 * SHIFT[0], 2 * SHIFT[1], 14]])
        module.update({"first": 5, "third": 6})
        assert np.array_equal(module.shifted(x), [[10, 2 * SHIFT[1], 12]])
        with pytest.raises(InputError, match="shift cannot be updated; those that can: first, third"):
            module.update(shift=SHIFT)

    def test_floors(self, module: NativeModule) -> None:
        before = module.shifted(np.zeros((1, 3), np.float32))
        with pytest.raises(UnsupportedError, match=r"three would have a negative entry \(-2\).*; nothing is replaced"):
            module.update(first=9, third=-1)
        assert np.array_equal(module.shifted(np.zeros((1, 3), np.float32)), before)
        assert module.constants["third"] == SHIFT[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"non_negative": (NonNegativeCheck("doubled", ("one",)),)},
            "non-negative check: doubled is no tensor of 1 numbers",
        ),
        ({"non_negative": (NonNegativeCheck("none", ()),)}, "non-negative check: none is no tensor of 0 numbers"),
        ({"also": ("exact",)}, "the entry exact cannot run in place of product"),
        ({"also": ("plus",)}, "the entry plus cannot run in place of product"),
        ({"tensors": (replace(MANIFEST.tensors[0], parts=("a",) * 4), *MANIFEST.tensors[1:])}, "has 4 updatable parts"),
    ],
)
def test_manifests_that_do_not_fit_together_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(NativeFileError, match=message):
        check_manifest(replace(MANIFEST, **changes), {name: len(part) for name, part in parts().items()})
