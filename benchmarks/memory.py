"""Peak memory above the loaded model, against eager attention that returns every map.

On every side glibc gives large blocks back when they are freed. Otherwise its heap keeps a share of
them that changes from run to run by more than a capture takes.
"""

from __future__ import annotations

import sys

from benchmarks.measuring import Row, forget_peak, in_process, peak_since, resident_bytes, row

TOKENS = 2048
LAYERS, HEADS, WIDTH = 12, 12, 768
WAYS = ("device", "recompute")


def measure(runs: int) -> list[Row]:
    """The rows of this benchmark; every side in a process of its own, once: memory repeats."""
    del runs
    eager, plain = _peak_of("eager"), _peak_of("plain")
    mebi = 1 << 20
    rows = [
        row(f"peak of eager output_attentions, {TOKENS:,} tokens", eager / mebi, "MiB"),
        row("peak of a plain forward pass", plain / mebi, "MiB"),
    ]
    for way in WAYS:
        peak = _peak_of(way)
        rows.append(row(f"peak of a capture, --keep {way}", peak / mebi, "MiB"))
        what = f"eager output_attentions / capture, --keep {way}"
        rows.append(row(what, eager / peak, "times", "at least 10"))
    kept = (4 * LAYERS + LAYERS + 1) * TOKENS * WIDTH * 4
    maps = LAYERS * HEADS * TOKENS**2 * 4
    rows.append(row("all maps / q, k, v, o and hidden states: no way round", maps / kept, "times"))
    return rows


def _peak_of(way: str) -> float:
    return in_process(__name__, way, MALLOC_MMAP_THRESHOLD_=str(1 << 20))[0]


def _peak(way: str) -> int:
    import torch
    from transformers import GPT2Config, GPT2Model

    from tui_attn.model import capture
    from tui_attn.progress import Job

    torch.manual_seed(0)
    size = {"n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH, "vocab_size": 1000}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    implementation = "eager" if way == "eager" else "sdpa"
    config = GPT2Config(**size, **ends, n_positions=TOKENS, attn_implementation=implementation)
    model = GPT2Model(config).eval()

    @torch.inference_mode()
    def run(tokens: int) -> object:
        inputs = {"input_ids": torch.zeros(1, tokens, dtype=torch.int64)}
        if way in WAYS:
            return capture.capture(model, inputs, sites, Job(), keep=way)  # type: ignore[arg-type]
        return model(**inputs, use_cache=False, output_attentions=way == "eager")

    sites = capture.verify(model, 1000)[0] if way in WAYS else []
    run(16)  # what libraries allocate once is not part of it
    before = resident_bytes()
    forget_peak()
    run(TOKENS)
    return peak_since() - before


if __name__ == "__main__":
    print(_peak(sys.argv[1]))
