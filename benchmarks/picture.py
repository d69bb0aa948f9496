"""One picture of all heads, against the page that BertViz makes of the same attention."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable

from benchmarks.measuring import (
    Row,
    forget_peak,
    in_process,
    peak_since,
    resident_bytes,
    row,
)
from tui_attn import demo as text

TOKENS = 512


def measure(runs: int) -> list[Row]:
    """The rows of this benchmark: each side in a process of its own, which has a run already."""
    pairs = [(in_process(__name__, "bertviz"), in_process(__name__, "ours")) for _ in range(runs)]
    rows = []
    for place, what in enumerate(("time", "memory", "bytes")):
        ratios = sorted(other[place] / one[place] for other, one in pairs)
        name = f"picture of all heads, s = {TOKENS}: BertViz model view / ours, {what}"
        rows.append(row(name, ratios[len(ratios) // 2], "times", "at least 20"))
    return rows


def _bertviz() -> tuple[float, int, int]:
    import torch
    from bertviz import model_view
    from transformers import AutoModel, AutoTokenizer

    from tui_attn.model import demo

    folder = str(demo.installed_folder())
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    long = " ".join([text.TEXT] * 40)
    inputs = tokenizer(long, truncation=True, max_length=TOKENS, return_tensors="pt")
    with torch.inference_mode():
        attentions = model(**inputs, output_attentions=True).attentions
    names = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    return _measured(lambda: len(model_view(attentions, names, html_action="return").data))


def _ours() -> tuple[float, int, int]:
    from tui_attn.answers import ModelRequest
    from tui_attn.export import mosaic
    from tui_attn.export.request import ExportRequest
    from tui_attn.progress import Job
    from tui_attn.session import open_session

    session = open_session(ModelRequest())
    session.analyse(" ".join([text.TEXT] * 40), max_tokens=TOKENS)
    request = ExportRequest("heads", format="html")

    def picture() -> int:
        stream = io.BytesIO()
        mosaic.write(session, request, {}, stream, Job())
        return len(stream.getvalue())

    return _measured(picture)


def _measured(make: Callable[[], int]) -> tuple[float, int, int]:
    """Seconds, bytes of memory at the peak, bytes of the page."""
    before = resident_bytes()
    forget_peak()
    started = time.perf_counter()
    length = make()
    return time.perf_counter() - started, max(peak_since() - before, 1), length


if __name__ == "__main__":
    print(*(_bertviz if sys.argv[1] == "bertviz" else _ours)(), sep=",")
