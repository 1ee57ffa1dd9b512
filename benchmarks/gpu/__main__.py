"""The command; it reads Plica from the checkout that it stands in."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from benchmarks.gpu.command import main  # noqa: E402 - found through the paths above

sys.exit(main())
