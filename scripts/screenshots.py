"""Make the pictures in screenshots/: the real program on the demo model, as SVG and PNG.

PNG needs rsvg-convert (Debian: librsvg2-bin) and the font Fira Code (fonts-firacode).
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

from tui_attn import demo
from tui_attn.answers import ModelRequest
from tui_attn.config import Settings
from tui_attn.session import open_session
from tui_attn.tui.app import InspectApp

FOLDER = Path(__file__).parents[1] / "screenshots"
PICTURES = {
    "main-80x24": ((80, 24), ""),
    "raw-and-effective": ((160, 48), "s } } } ] ] ] j j l l l l"),
    "null": ((120, 40), "3 } } } } } ]"),
    "mosaic": ((120, 40), "m"),
    "text": ((100, 30), "} } 2 v right right right right"),
    "identity": ((100, 40), "4 V l l l l l l j j j j"),
    "transfer": ((100, 24), "4 V m"),
    "attribution": ((160, 40), "5 } } } } } j j"),
    "own-shares": ((100, 40), "5 m"),
    "attention-and-attribution": ((100, 40), "5 } } } } } j j s"),
    "help": ((100, 40), "question_mark"),
}


async def take(name: str, size: tuple[int, int], keys: str) -> None:
    """Start the program, press keys, and keep what stands on the screen."""
    app = InspectApp(ModelRequest(), demo.TEXT, Settings(colour="256"), open_session)
    async with app.run_test(size=size) as pilot:
        while "query" not in app.get_default_screen().query_one("#detail").text:  # type: ignore[attr-defined]
            await pilot.pause(0.1)
        for key in keys.split():
            await pilot.press(key)
            await pilot.pause(0.3)
        await pilot.pause(8 if "5" in keys else 1.5)  # attribution is estimated meanwhile
        # The viewer's own monospace font: a picture needs no network.
        svg = app.export_screenshot(title="attn-inspect")
    for lane in app.main_screen.lanes:
        lane.stop(seconds=20)
    path = FOLDER / f"{name}.svg"
    path.write_text(_self_contained(svg), encoding="utf-8")
    if shutil.which("rsvg-convert"):
        png = path.with_suffix(".png")
        subprocess.run(["rsvg-convert", str(path), "-w", "1600", "-o", str(png)], check=True)


def _self_contained(svg: str) -> str:
    """Without the web fonts that the exporter links to."""
    start = svg.find("@font-face")
    while start >= 0:
        svg = svg[:start] + svg[svg.index("}", start) + 1 :]
        start = svg.find("@font-face")
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def main() -> None:
    """Make every picture."""
    FOLDER.mkdir(exist_ok=True)
    for name, (size, keys) in PICTURES.items():
        asyncio.run(take(name, size, keys))
        print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
