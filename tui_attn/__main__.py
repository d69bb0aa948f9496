"""`python -m tui_attn` is `attn-inspect`."""

from __future__ import annotations

import sys

from tui_attn.cli import main

if __name__ == "__main__":
    sys.exit(main())
