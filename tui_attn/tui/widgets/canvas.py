"""What draws itself line by line."""

from __future__ import annotations

from rich.style import Style
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.strip import Strip


class Canvas(ScrollView, inherit_bindings=False):
    """A scrolled widget with `render_line`, whose own style is looked up once a frame.

    Attributes:
        base: Text on the widget's background.
    """

    base = Style()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a region of the screen."""
        self.base = self.rich_style
        return super().render_lines(crop)
