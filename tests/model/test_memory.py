"""What a text takes, where its layers stay, and what happens where there is no room."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.model import tiny
from tests.model.test_capture import text
from tui_attn.answers import ModelRequest
from tui_attn.answers.attribution import AttributionChoices
from tui_attn.answers.identity import choose
from tui_attn.answers.memory import KEEPS, MemoryPlan, Need, TooLarge, size
from tui_attn.errors import Cancelled, ExitCode, InspectError
from tui_attn.maps.nullspace import effective_rows
from tui_attn.model import capture, memory, placement
from tui_attn.model.memory import Footprint
from tui_attn.model.trace import Trace
from tui_attn.progress import Job
from tui_attn.session import Session, open_session

TEXT = "The cat sat on the mat, and slept."
LAYERS = {"gpt2": "n_layer"} | dict.fromkeys(("bert", "llama", "qwen3"), "num_hidden_layers")


def kept(family: str, keep: str, **changes: object) -> Trace:
    model, ids = tiny.model(family, **changes), text()
    sites, _ = capture.verify(model, tiny.VOCABULARY)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return capture.capture(model, inputs, sites, Job(), keep=keep)


@pytest.mark.parametrize("keep", ["host", "recompute"])
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_layers_are_the_same_wherever_they_stay(family: str, keep: str) -> None:
    expected, actual = kept(family, "device"), kept(family, keep)
    assert list(actual.layers) == list(expected.layers)
    torch.testing.assert_close(actual.hidden, expected.hidden, rtol=0, atol=0)
    for number in reversed(list(expected.layers)):
        one, other = expected.layers[number], actual.layers[number]
        for name in ("q", "k", "v", "o"):
            torch.testing.assert_close(
                getattr(other, name), getattr(one, name), rtol=0, atol=1e-6, msg=name
            )
        span = (0, one.length)
        torch.testing.assert_close(
            effective_rows(actual, number, 1, span, span, "output"),
            effective_rows(expected, number, 1, span, span, "output"),
            rtol=0,
            atol=1e-4,
        )


def test_a_capture_for_recomputing_holds_hidden_states_and_no_more_while_it_runs() -> None:
    def alive() -> int:
        tensors = [one for one in gc.get_objects() if type(one) is torch.Tensor]
        stores = [tensor.untyped_storage() for tensor in tensors]
        return sum({store.data_ptr(): store.nbytes() for store in stores}.values())

    model, ids = tiny.model("llama", num_hidden_layers=8), text().repeat(1, 20)
    sites, _ = capture.verify(model, tiny.VOCABULARY)
    held: list[int] = []
    listener = Job(lambda _: held.append(alive()))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    trace = capture.capture(model, inputs, sites, listener, keep="recompute")
    state = trace.hidden[0].numel() * trace.hidden[0].element_size()
    assert held[-1] - held[1] <= (len(held) - 2) * 1.05 * state


def test_recomputed_layers_hold_few_and_run_each_once_while_it_is_at_hand() -> None:
    trace = kept("llama", "recompute", num_hidden_layers=6)
    first = trace.layers[0]
    assert trace.layers[0] is first
    for number in range(1, 6):
        assert trace.layers[number].layer == number
    assert trace.layers[0] is not first
    assert len(trace.layers._kept) <= 3


@pytest.mark.parametrize("family", ["bert", "llama", "qwen3", "gpt2"])
def test_the_footprint_is_what_a_trace_holds(family: str) -> None:
    model, ids = tiny.model(family, **{LAYERS[family]: 6}), text()
    sites, call = capture.verify(model, tiny.VOCABULARY)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    trace = capture.capture(model, inputs, sites, Job())
    footprint = Footprint.of(model, len(sites), call)
    layers = sum(
        part.nbytes
        for layer in trace.layers.values()
        for part in (layer.q, layer.k, layer.v, layer.o)
    )
    assert footprint.layers * footprint.layer * ids.shape[1] == layers
    states = sum(state.nbytes for state in trace.hidden)
    assert (footprint.layers + 1) * footprint.hidden * ids.shape[1] == states
    plan = footprint.plan(1000, [torch.device("cpu")])
    assert plan.needs["device"].device > plan.needs["recompute"].device
    assert "host" not in plan.needs  # on a CPU the two are one place


def test_a_plan_on_a_gpu_counts_both_memories() -> None:
    footprint = Footprint(layers=10, layer=100, hidden=10, working=50)
    plan = footprint.plan(7, [torch.device("xpu")])
    assert plan.needs["device"] == Need(7 * (50 + 1000 + 110))
    assert plan.needs["host"] == Need(7 * 150, 7 * 1110)
    assert plan.needs["recompute"] == Need(7 * (50 + 400 + 110))


GIB = 2**30
PLAN = MemoryPlan(
    8000,
    "cuda:0",
    {"device": Need(20 * GIB), "host": Need(3 * GIB, 18 * GIB), "recompute": Need(5 * GIB)},
    Need(6 * GIB, 10 * GIB),
)


def test_the_first_way_that_fits_is_the_best() -> None:
    assert [PLAN.fits(keep) for keep in KEEPS] == [False, False, True]
    assert PLAN.best == "recompute"
    assert PLAN.longest == int(8000 * 0.9 * 6 / 5)
    nowhere = MemoryPlan(8000, "cpu", {"device": Need(20), "recompute": Need(10)}, Need(5, 5))
    assert nowhere.best is None
    assert nowhere.longest == 3600


def test_the_sentence_names_what_is_needed_and_every_way_out() -> None:
    error = TooLarge(PLAN)
    assert error.code == ExitCode.INPUT
    assert str(error) == (
        "8,000 tokens need about 20 GiB on cuda:0, and 6 GiB are free; use --keep recompute "
        "(about 5 GiB), --max-tokens 8000, --dtype bfloat16 or a smaller model."
    )
    after = str(TooLarge(PLAN, "recompute"))
    assert after.startswith("8,000 tokens ran out of memory on cuda:0; use --max-tokens 4000")
    assert size(512) == "512 B"
    assert size(3.25 * GIB) == "3.25 GiB"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save("llama", tmp_path_factory.mktemp("memory") / "llama", num_hidden_layers=6)


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    yield open_session(ModelRequest(str(folder), device="cpu"))


def test_a_text_without_room_is_refused_before_it_runs(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.analyse("A short text.")
    monkeypatch.setattr(memory, "free", lambda device: 1000)
    with pytest.raises(TooLarge) as caught:
        session.analyse(TEXT)
    assert caught.value.tried is None
    assert session.run.text == "A short text."
    run = session.analyse(TEXT, keep="recompute")  # who says so is not asked again
    assert (run.keep, session.provenance()["layers_kept"]) == ("recompute", "recompute")
    assert all(check.ok for check in run.checks)


@pytest.mark.parametrize(
    "shortage",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes."),
        MemoryError(),
    ],
)
def test_running_out_of_memory_offers_the_ways_that_are_left(
    session: Session, shortage: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.analyse("A short text.")
    run, model = capture.capture_stacks, session._loaded.model

    def fails(*args: object, keep: str, **kwargs: object) -> Trace:
        if keep == "device":
            model.get_input_embeddings()  # it had begun
            raise shortage
        return run(*args, keep=keep, **kwargs)

    monkeypatch.setattr(capture, "capture_stacks", fails)
    with pytest.raises(TooLarge) as caught:
        session.analyse(TEXT)
    assert caught.value.tried == "device"
    assert "--keep recompute" in caught.value.hint
    assert session.run.text == "A short text."
    assert session.analyse(TEXT, keep="recompute").keep == "recompute"


def test_an_error_about_something_else_is_not_a_shortage(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Trace:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(capture, "capture_stacks", fails)
    with pytest.raises(RuntimeError, match="shapes"):
        session.analyse(TEXT)


def test_checks_of_recomputed_layers_can_be_stopped(session: Session) -> None:
    job = Job(lambda progress: job.cancel() if progress.phase == "checking the numbers" else None)
    with pytest.raises(Cancelled):
        session.analyse(TEXT, keep="recompute", job=job)


def test_windows_and_statistics_of_recomputed_layers_come_together(session: Session) -> None:
    """Two threads look at layers that are kept nowhere; each gets its own."""
    session.analyse(TEXT * 3)
    expected = [session.window("effective", n, 1, (0, 9), (0, 9)).values for n in range(3)]
    session.analyse(TEXT * 3, keep="recompute")
    failed: list[BaseException] = []

    def statistics() -> None:
        try:
            for layer in range(3):
                session.summaries(layer)
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=statistics, daemon=True)
    worker.start()
    for _ in range(5):
        for number in range(3):
            found = session.window("effective", number, 1, (0, 9), (0, 9)).values
            torch.testing.assert_close(
                torch.from_numpy(found),
                torch.from_numpy(expected[number]),
                equal_nan=True,
                rtol=0,
                atol=1e-4,
            )
    worker.join(30)
    assert not worker.is_alive()
    assert not failed


SPREAD = {"device_map": "auto", "max_memory": "cpu=150KB"}
"""On a machine without a GPU: some layers in memory, the others on disk."""


def test_a_model_that_is_partly_on_disk_gives_the_same_numbers(
    folder: Path, session: Session
) -> None:
    spread = open_session(ModelRequest(str(folder), device="cpu", **SPREAD))
    assert spread.model.device == "cpu disk"
    run, expected = spread.analyse(TEXT), session.analyse(TEXT)
    assert all(check.ok for check in run.checks)
    assert len(run.checks) == len(expected.checks)
    for layer in range(6):
        span = (0, session.length())
        torch.testing.assert_close(
            torch.from_numpy(spread.window("effective", layer, 1, span, span).values),
            torch.from_numpy(session.window("effective", layer, 1, span, span).values),
            equal_nan=True,
            rtol=0,
            atol=1e-5,
        )
    choices = choose()
    assert [rate.rate for rate in spread.identity.rates(choices)] == [
        rate.rate for rate in session.identity.rates(choices)
    ]
    assert spread.identity.rates(choose(candidates="vocabulary"))
    assert spread.identity.probes() == session.identity.probes()


def test_the_value_bias_of_a_layer_on_disk_is_read(tmp_path: Path) -> None:
    folder = tiny.save("gpt2", tmp_path / "gpt2")
    whole = open_session(ModelRequest(str(folder), device="cpu"))
    spread = open_session(
        ModelRequest(str(folder), device="cpu", device_map="auto", max_memory="cpu=70KB")
    )
    assert "disk" in spread.model.device
    for session in (whole, spread):
        session.analyse(TEXT)
    for layer in range(3):
        one, other = whole.trace.layers[layer].value_bias, spread.trace.layers[layer].value_bias
        assert one is not None
        torch.testing.assert_close(other, one)
    assert spread.window("effective", 2, 0, (0, 5), (0, 5), variant="no-bias").values[4, 0]


def test_attribution_of_a_spread_model_is_refused_in_a_sentence(folder: Path) -> None:
    spread = open_session(ModelRequest(str(folder), device="cpu", **SPREAD))
    spread.analyse(TEXT)
    with pytest.raises(InspectError, match="on one device; leave out --device-map") as caught:
        spread.attribution.refine(AttributionChoices(probes=1))
    assert caught.value.code == ExitCode.UNSUPPORTED


def test_layers_of_a_spread_model_can_be_recomputed(folder: Path, session: Session) -> None:
    spread = open_session(ModelRequest(str(folder), device="cpu", **SPREAD))
    spread.analyse(TEXT, keep="recompute")
    session.analyse(TEXT)
    for layer in (5, 0, 3):
        torch.testing.assert_close(spread.trace.layers[layer].o, session.trace.layers[layer].o)


@pytest.mark.parametrize(
    "options,words",
    [
        ({"device_map": "everywhere"}, "choose one of auto"),
        ({"max_memory": "cpu=1GB"}, "add --device-map auto"),
        ({"device_map": "auto", "max_memory": "1GB"}, "write --max-memory 0=20GiB,cpu=60GiB"),
        ({"device_map": "auto", "max_memory": "tpu=1GB"}, "write --max-memory"),
    ],
)
def test_places_that_are_not_there(folder: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(InspectError, match=words) as caught:
        open_session(ModelRequest(str(folder), device="cpu", **options))
    assert caught.value.code == ExitCode.USAGE


def test_a_device_map_without_its_package_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "find_spec", lambda name: None)
    with pytest.raises(InspectError, match=r"pip install 'attn-inspect\[spread\]'"):
        open_session(ModelRequest(str(folder), device="cpu", device_map="auto"))
