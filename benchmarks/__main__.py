"""Print the tables of measurements and write them to benchmarks/results/."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PARTS = (
    "first_map",
    "effective",
    "windows",
    "frames",
    "memory",
    "picture",
    "probes",
    "attribution",
)


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; none: all")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (the median counts)")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for part in options.parts or PARTS:
        rows = importlib.import_module(f"benchmarks.{part}").measure(options.runs)
        for row in rows:
            print(f"{row['what']:<76} {row['value']:>8.2f} {row['unit']:<8} aim {row['aim']}")
        found = {"machine": platform.platform(), "python": platform.python_version(), "rows": rows}
        path = RESULTS / f"{part}.json"
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
