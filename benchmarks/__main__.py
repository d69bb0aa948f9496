"""Print the table of measurements and write it to benchmarks/results/."""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

from benchmarks import first_map

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (the median counts)")
    runs = parser.parse_args().runs
    rows = first_map.measure(runs)
    for row in rows:
        print(f"{row['what']:<60} {row['value']:>8.2f} {row['unit']:<12} aim {row['aim']}")
    RESULTS.mkdir(exist_ok=True)
    found = {"machine": platform.platform(), "python": platform.python_version(), "rows": rows}
    (RESULTS / "first_map.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
