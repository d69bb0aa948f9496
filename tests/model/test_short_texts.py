"""The shortest texts there are: one token, or one among special ones."""

from __future__ import annotations

import io

import pytest

from tests.model import tiny
from tui_attn.answers import VARIANTS, ModelRequest
from tui_attn.answers.attribution import AttributionChoices
from tui_attn.errors import InspectError
from tui_attn.export import FORMATS, ExportRequest, export_stream
from tui_attn.session import Session, open_session


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Session]:
    root = tmp_path_factory.mktemp("models")
    return {
        family: open_session(ModelRequest(str(tiny.save(family, root / family)), device="cpu"))
        for family in ("gpt2", "llama", "bert")
    }


@pytest.mark.parametrize("family,length", [("gpt2", 1), ("llama", 1), ("bert", 3)])
def test_every_answer_comes_for_one_token(
    sessions: dict[str, Session], family: str, length: int
) -> None:
    session = sessions[family]
    run = session.analyse("the" if family == "bert" else "a")
    assert (session.length(), session.length("word")) == (length, length)
    assert all(check.ok for check in run.checks)
    for name in ("attention", "effective", "null"):
        for variant in VARIANTS:
            shown = session.overview(name, 1, 0, (40, 40), variant=variant)
            assert shown.values.shape == (length, length)
            session.extent(name, 1, 0, variant=variant, without_special=True)
    assert len(session.summaries(0)) == 4
    assert session.cell(0, 0, 0, 0).raw == pytest.approx(1.0 if length == 1 else 0.3, abs=0.7)
    session.attribution.refine(AttributionChoices(exact=True))
    for name in ("attention", "effective", "null", "heads", "identity", "attribution"):
        for form in FORMATS:
            try:
                export_stream(session, ExportRequest(name, format=form), stream := io.BytesIO())
            except InspectError as error:
                assert name == "identity" and "has 1 token to tell" in error.title
            else:
                assert stream.getvalue()


def test_a_text_of_all_the_tokens_a_model_takes_runs_and_one_more_is_told(
    sessions: dict[str, Session],
) -> None:
    for family, letter in (("gpt2", "a"), ("bert", "the ")):
        session, special = sessions[family], 2 if family == "bert" else 0
        assert len(session.analyse(letter * (64 - special)).tokens) == 64
        with pytest.raises(InspectError, match=r"65 tokens .* takes 64.*--max-tokens 64"):
            session.analyse(letter * (65 - special))
        cut = session.analyse(letter * 500, max_tokens=64)
        assert (len(cut.tokens), cut.truncated_from) == (64, 500 + special)
        assert cut.tokens[-1].special == (family == "bert")
