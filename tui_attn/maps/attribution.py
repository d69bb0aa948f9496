"""Hidden token attribution: which input tokens is a hidden token made of?"""

from __future__ import annotations

from tui_attn.maps.base import MapSpec

MAP = MapSpec(
    name="attribution",
    title="Hidden token attribution",
    axes="query x key",
    scale="share",
    formula="c_ij = ||d e_i / d x_j|| / sum_k ||d e_i / d x_k||, e_i hidden state, x_j input",
    source="On Identifiability in Transformers (arXiv 1908.04211), section 5",
    meaning="the share of the input token (key) in the hidden state of the token (query)",
    per_head=False,
    summaries=("own", "distance", "offset", "kind"),
)
