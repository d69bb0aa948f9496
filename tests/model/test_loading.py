"""Opening models: what works, and one sentence with the right exit code for what does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.model import tiny
from tui_attn.answers import ModelRequest
from tui_attn.errors import Cancelled, ExitCode, InspectError
from tui_attn.model import source
from tui_attn.progress import Job
from tui_attn.session import Session, open_session

TEXT = {"bert": "the cat sat on the mat", "gpt2": "The cat sat.", "llama": "The cat sat."}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {family: tiny.save(family, root / family) for family in TEXT}


def opened(folder: Path, **options: object) -> Session:
    return open_session(ModelRequest(name=str(folder), device="cpu", **options))


def refused(folder: Path | str, **options: object) -> InspectError:
    with pytest.raises(InspectError) as caught:
        open_session(ModelRequest(name=str(folder), **{"device": "cpu", **options}))
    assert "Traceback" not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("family", TEXT)
@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "float16"])
def test_local_folders(folders: dict[str, Path], family: str, dtype: str) -> None:
    session = opened(folders[family], dtype=dtype)
    run = session.analyse(TEXT[family])
    assert all(check.ok for check in run.checks), run.checks
    assert session.model.causal == (family != "bert")
    assert session.model.dtype == ("float32" if dtype == "auto" else dtype)
    assert (session.model.layers, session.model.heads) == (3, 4)
    assert session.model.kv_heads == (2 if family == "llama" else 4)


def test_a_task_head_is_no_obstacle(tmp_path: Path) -> None:
    import transformers

    config = tiny.config("bert", num_labels=2)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    model.save_pretrained(tmp_path)
    tiny.word_tokenizer("the cat").save_pretrained(tmp_path)
    assert opened(tmp_path).model.layers == 3


@pytest.mark.parametrize("device", ["cuda:99", "tpu", "nonsense", "cuda:x"])
def test_a_device_that_is_not_there(folders: dict[str, Path], device: str) -> None:
    assert refused(folders["bert"], device=device).code == ExitCode.USAGE


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    for name in (tmp_path / "nothing", "./nothing", "a/b/c", "model.gguf"):
        assert refused(name).code == ExitCode.NO_MODEL


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert error.code == ExitCode.NO_MODEL
    assert "config.json" in str(error)


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"not a model")
    assert refused(tmp_path / "a.gguf").code == ExitCode.NO_MODEL


def test_pickle_is_refused_and_the_refusal_names_the_flag(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    for file in folders["gpt2"].iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert refused(tmp_path).code == ExitCode.NO_MODEL  # no weights at all
    torch.save(tiny.model("gpt2").state_dict(), tmp_path / "pytorch_model.bin")
    error = refused(tmp_path)
    assert error.code == ExitCode.NO_MODEL
    assert "--allow-pickle" in str(error)
    assert opened(tmp_path, allow_pickle=True).model.layers == 3


@pytest.mark.parametrize("damage", ["truncated", "empty", "config", "type", "tokenizer"])
def test_damaged_folders(folders: dict[str, Path], tmp_path: Path, damage: str) -> None:
    for file in folders["bert"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    if damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-1000])
    elif damage == "empty":
        weights.write_bytes(b"")
    elif damage == "config":
        config.write_text("{ not json")
    elif damage == "type":
        config.write_text(json.dumps({"model_type": "no-such-type"}))
    else:
        for file in tmp_path.glob("tokenizer*"):
            file.unlink()
    assert refused(tmp_path).code == ExitCode.NO_MODEL


def test_remote_code_is_never_run_unasked(folders: dict[str, Path], tmp_path: Path) -> None:
    for file in folders["bert"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["model_type"] = "custom"
    config["auto_map"] = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    error = refused(tmp_path)
    assert error.code == ExitCode.NO_MODEL
    assert "--trust-remote-code" in str(error)
    assert not (tmp_path / "ran").exists()


def test_encoder_decoders_that_are_not_supported_are_refused(tmp_path: Path) -> None:
    import transformers

    config = transformers.AutoConfig.for_model(
        "longt5", d_model=16, num_layers=1, num_heads=2, d_kv=8, d_ff=16, vocab_size=32
    )
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
    assert refused(tmp_path).code == ExitCode.UNSUPPORTED


@pytest.mark.parametrize("name", ["gpt2", "someone/model", "not a name!", "a//b"])
def test_a_hub_name_without_a_network_is_a_sentence(name: str) -> None:
    assert refused(name).code == ExitCode.NO_MODEL
    assert refused(name, offline=True).code == ExitCode.NO_MODEL


def test_an_empty_name() -> None:
    assert refused("  ").code == ExitCode.USAGE


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_an_empty_text(folders: dict[str, Path], text: str) -> None:
    session = opened(folders["bert"])
    run = session.analyse(TEXT["bert"])
    with pytest.raises(InspectError) as caught:
        session.analyse(text)
    assert caught.value.code == ExitCode.INPUT
    assert session.run is run  # nothing is lost


def test_a_text_that_is_too_long(folders: dict[str, Path]) -> None:
    session = opened(folders["bert"])
    long = "the cat sat " * 40
    with pytest.raises(InspectError) as caught:
        session.analyse(long)
    assert caught.value.code == ExitCode.INPUT
    assert "--max-tokens 64" in str(caught.value)
    run = session.analyse(long, max_tokens=64)
    assert (len(run.tokens), run.truncated_from) == (64, 122)
    assert run.tokens[-1].special


def test_a_pair_has_segments(folders: dict[str, Path]) -> None:
    run = opened(folders["bert"]).analyse("the cat", pair="on the mat")
    assert [token.segment for token in run.tokens] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_one_token(folders: dict[str, Path]) -> None:
    session = opened(folders["gpt2"])
    session.analyse("a")
    assert session.window("effective", 0, 0, (0, 1), (0, 1)).values.tolist() == [[1.0]]
    assert session.summaries(0)[0].identifiable


def test_cancelling_while_it_loads(folders: dict[str, Path]) -> None:
    job = Job(lambda progress: job.cancel() if "weights" in progress.phase else None)
    with pytest.raises(Cancelled):
        open_session(ModelRequest(name=str(folders["bert"]), device="cpu"), job)


@pytest.mark.parametrize(
    "layer,head,rows", [(3, 0, (0, 1)), (0, 4, (0, 1)), (-1, 0, (0, 1)), (0, 0, (0, 99))]
)
def test_what_is_not_there(
    folders: dict[str, Path], layer: int, head: int, rows: tuple[int, int]
) -> None:
    session = opened(folders["bert"])
    session.analyse(TEXT["bert"])
    with pytest.raises(InspectError) as caught:
        session.window("attention", layer, head, rows, (0, 1))
    assert caught.value.code == ExitCode.USAGE


def test_nan_is_counted_and_shown(folders: dict[str, Path]) -> None:
    session = opened(folders["bert"])
    with torch.inference_mode():
        session._loaded.model.encoder.layer[1].attention.self.value.weight[0] = torch.nan
    run = session.analyse(TEXT["bert"] + " and slept" * 10)
    assert run.nan_count > 0
    assert not all(check.ok for check in run.checks)
    assert session.summaries(1)


def test_models_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--someone--thing" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert "someone/thing" in [name for name, _, _ in source.models_on_this_machine()]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("family", TEXT)
def test_the_gpu_gives_the_numbers_of_the_cpu(folders: dict[str, Path], family: str) -> None:
    windows = []
    for device in ("cpu", "auto"):
        session = open_session(ModelRequest(str(folders[family]), device, "float32"))
        session.analyse(TEXT[family] * 3)
        span = (0, session.length())
        windows.append(session.window("effective", 1, 2, span, span).values)
    torch.testing.assert_close(
        *(torch.from_numpy(values) for values in windows), rtol=0, atol=1e-4, equal_nan=True
    )
