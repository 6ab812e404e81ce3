"""What the language models are made of: text that is read or refused, the models, masking and LAMB."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trainmark_checkpoint
import trainmark_text
import trainmark_torch
from trainmark_checkpoint import Parts
from trainmark_job import InputError
from trainmark_loop import learning_rate

from trainmark.spec import workload

from .conftest import load
from .test_workload_parts import ALONE, CPU

gpt2, llama, bert = (load(f"{name}/model") for name in ("gpt2", "llama", "bert"))
masked_text = load("bert/masked_text")
SENTENCE = "To be, or not to be: that is the question.\n"


# -- text


def corpus(path: Path, content: bytes = (SENTENCE * 50).encode(), tokenizer: str = "characters") -> Any:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return trainmark_text.open_text(str(path.parent), tokenizer, 0)


def test_characters_are_numbered_in_their_order_and_the_end_is_held_out(tmp_path):
    text = "née naïve, " * 30
    found = corpus(tmp_path / "a.txt", text.encode())
    assert found.vocabulary == tuple(sorted(set(text)))
    told = "".join(found.vocabulary[number] for number in (*found.train, *found.test))
    assert told == text
    assert len(found.test) == len(text) // 10


def test_a_file_for_validation_is_held_out_whole(tmp_path):
    (tmp_path / "val.txt").write_text("xyz")
    (tmp_path / "b.txt").write_text("second")
    found = corpus(tmp_path / "a.txt", b"first ", "bytes")
    assert bytes(found.train) == b"first second"
    assert bytes(found.test) == b"xyz"
    assert found.kinds == 256


def test_numbers_made_elsewhere_are_read_and_checked(tmp_path):
    for name in ("train.bin", "val.bin"):
        (np.arange(100) % 11).astype("<u2").tofile(tmp_path / name)
    found = trainmark_text.open_text(str(tmp_path), "tokens", 11)
    windows = trainmark_text.Windows(found, 9, ALONE, 0, ALONE.tensor)
    batch = next(windows.training(windows.shards(2, 1), range(1), 2))
    assert ((batch[:, 1:] - batch[:, :-1]) % 11 == 1).all()
    windows = trainmark_text.Windows(trainmark_text.open_text(str(tmp_path), "tokens", 10), 20, ALONE, 0)
    with pytest.raises(InputError, match="has the token 10; the model knows 0 to 9"):
        next(windows.training(windows.shards(2, 1), range(1), 2))
    (tmp_path / "val.bin").write_bytes(b"odd")
    with pytest.raises(InputError, match=r"val\.bin is cut short: 3 bytes"):
        trainmark_text.open_text(str(tmp_path), "tokens", 11)
    (tmp_path / "val.bin").unlink()
    with pytest.raises(InputError, match=r"holds no val\.bin .*data=synthetic"):
        trainmark_text.open_text(str(tmp_path), "tokens", 11)


def test_spoilt_text_is_named(tmp_path):
    with pytest.raises(InputError, match=r"a\.txt is empty"):
        corpus(tmp_path / "a.txt", b"")
    (tmp_path / "a.txt").write_text("good")
    with pytest.raises(InputError, match=r"b\.txt is not UTF-8 text at byte 2: set tokenizer=bytes"):
        corpus(tmp_path / "b.txt", b"ab\xff\xfe")
    with pytest.raises(InputError, match=r"none does not exist"):
        trainmark_text.open_text(str(tmp_path / "none"), "bytes", 0)
    with pytest.raises(InputError, match=r"trains holds no text"):
        (tmp_path / "trains").mkdir()
        trainmark_text.open_text(str(tmp_path / "trains"), "bytes", 0)
    with pytest.raises(InputError, match="has 256 kinds of tokens; the model has 100: set vocabulary=0"):
        trainmark_text.open_text(str(tmp_path), "bytes", 100)


def test_a_text_that_is_too_short_is_refused(tmp_path):
    short = corpus(tmp_path / "a.txt", b"abcdefghij" * 20)
    windows = trainmark_text.Windows(short, 17, ALONE, 0)
    with pytest.raises(InputError, match="11 windows of 17 tokens in the text are fewer than one step of 1 x 12"):
        windows.shards(4, 3)
    with pytest.raises(InputError, match="20 held out characters are fewer than one window of 65"):
        trainmark_text.Windows(short, 65, ALONE, 0)


def test_every_held_out_window_counts_once_and_ranks_have_as_many_batches(tmp_path):
    found = corpus(tmp_path / "a.txt")
    seen, batches = [], set()
    for rank in range(3):
        ranks = trainmark_torch.Ranks(CPU, rank, 3, rank)
        mine = list(trainmark_text.Windows(found, 11, ranks, 0).evaluation(10, 2))
        seen += [int(n) for _, numbers, counts in mine for n, good in zip(numbers, counts, strict=True) if good]
        batches.add(len(mine))
    assert len(seen) == len(set(seen)) == 10
    assert len(batches) == 1


def test_batches_in_parts_are_the_same_windows_as_in_one(tmp_path):
    windows = trainmark_text.Windows(corpus(tmp_path / "a.txt"), 9, ALONE, 3, ALONE.tensor)
    whole = list(windows.training(windows.shards(4, 1), range(3), 4))
    parts = list(windows.training(windows.shards(2, 2), range(6), 2))
    assert torch.equal(torch.cat(whole), torch.cat(parts))


# -- models


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def small_gpt2(**changed: Any) -> Any:
    return gpt2.GPT2(
        **{"vocabulary": 13, "context": 16, "layers": 2, "heads": 2, "width": 16, "dropout": 0.0, **changed}
    )


def small_llama(**changed: Any) -> Any:
    shape = {"layers": 2, "heads": 4, "kv_heads": 2, "width": 32, "inner": 48, "rope_base": 1e4}
    return llama.Llama(**{"vocabulary": 13, "context": 16, **shape, **changed})


FULL = {
    "gpt2": (lambda: gpt2.GPT2(50257, 1024, 12, 12, 768, 0.0), 124_439_808, (1024,)),
    "llama": (lambda: llama.Llama(32000, 4096, 32, 32, 32, 4096, 11008, 1e4), 6_738_415_616, (4096,)),
    "bert": (lambda: bert.Bert(30522, 512, 24, 16, 1024, 4096, 0.1), 335_174_458, (512, 77)),
}


@pytest.mark.parametrize("name", FULL)
def test_the_full_size_has_the_known_parameters_and_the_declared_flops(name):
    build, parameters, lengths = FULL[name]
    with torch.device("meta"):
        assert trainmark_torch.parameter_count(build()) == parameters
    flops = trainmark_torch.training_flops(
        build, lambda: tuple(torch.zeros(1, length, dtype=torch.long) for length in lengths)
    )
    declared = workload.read(workload.BUILT_IN / name).workload
    assert declared.flops_per_sample == flops / (lengths[0] if declared.unit == "tokens" else 1)


def test_flops_count_attention():
    """Six operations per weight and token; twelve per layer, width and pair of tokens."""
    short, long = (
        trainmark_torch.training_flops(
            lambda length=length: small_gpt2(context=length), lambda length=length: (torch.zeros(1, length).long(),)
        )
        / length
        for length in (64, 128)
    )
    assert long - short == 12 * 2 * 16 * (128 - 64)


@pytest.mark.parametrize("build", [small_gpt2, small_llama])
def test_the_future_does_not_change_the_past(build):
    model = build().eval()
    tokens = torch.randint(0, 13, (2, 12))
    changed = tokens.clone()
    changed[:, 8:] = (changed[:, 8:] + 1) % 13
    before, after = model(tokens), model(changed)
    assert before.shape == (2, 12, 13)
    torch.testing.assert_close(before[:, :8], after[:, :8])
    assert not torch.allclose(before[:, 8], after[:, 8])


def test_bert_sees_both_sides_and_guesses_only_what_is_asked():
    model = bert.Bert(13, 16, 2, 2, 16, 32, 0.0).eval()
    tokens = torch.randint(0, 13, (2, 12))
    places = torch.tensor([[3, 5], [0, 3]])
    changed = tokens.clone()
    changed[:, 11] = (changed[:, 11] + 1) % 13
    before = model(tokens, places)
    assert before.shape == (2, 2, 13)
    assert not torch.allclose(before, model(changed, places))
    torch.testing.assert_close(model(tokens, places.flip(1)), before.flip(1))


def test_turned_vectors_know_only_how_far_apart_they_are():
    by = llama.turns(32, 8, 1e4)
    query, key = torch.randn(2, 1, 1, 1, 8).expand(2, 1, 1, 32, 8)
    products = llama.turn(query, by)[0, 0] @ llama.turn(key, by)[0, 0].T
    for distance in (0, 1, 7):
        along = products.diagonal(distance)
        torch.testing.assert_close(along, along[:1].expand_as(along), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(products[0, 1], products[0, 7])


def test_shared_keys_equal_repeated_ones():
    """Two heads that share a key and a value are four heads whose keys and values come in equal pairs."""
    shared, plain = llama.GroupedAttention(32, 4, 2), llama.GroupedAttention(32, 4, 4)
    weights = dict(shared.state_dict())
    for name in ("key.weight", "value.weight"):
        weights[name] = weights[name].view(2, 8, 32).repeat_interleave(2, 0).reshape(32, 32)
    plain.load_state_dict(weights)
    hidden, by = torch.randn(2, 10, 32), llama.turns(16, 8, 1e4)
    torch.testing.assert_close(shared(hidden, by), plain(hidden, by))


@pytest.mark.parametrize("build", [small_gpt2, small_llama])
def test_recomputing_changes_no_gradient(build):
    plain, again = build(), build(recompute=True)
    again.load_state_dict(plain.state_dict())
    tokens = torch.randint(0, 13, (2, 12))
    for model in (plain, again):
        model(tokens).square().mean().backward()
    for one, other in zip(plain.parameters(), again.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_impossible_shapes_are_refused():
    with pytest.raises(InputError, match="width 16 cannot be divided among 3 heads"):
        small_gpt2(heads=3)
    with pytest.raises(InputError, match="4 heads of 8 values cannot share 3 kv_heads"):
        small_llama(kv_heads=3)


# -- learning


def test_lamb_takes_the_step_that_the_paper_says():
    weight = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
    bias = torch.nn.Parameter(torch.tensor([1.0]))
    groups = [{"params": [weight], "weight_decay": 0.1}, {"params": [bias], "weight_decay": 0.0}]
    lamb = load("bert/lamb").Lamb(groups, lr=0.01, betas=(0.9, 0.99), eps=0.0)
    weight.grad, bias.grad = torch.tensor([[0.5, -2.0]]), torch.tensor([7.0])
    lamb.step()
    # At the first step Adam's direction is the sign of the gradient: (1, -1), plus decay (0.3, 0.4).
    change = np.array([1.3, -0.6])
    wanted = np.array([3.0, 4.0]) - 0.01 * 5.0 / math.hypot(*change) * change
    np.testing.assert_allclose(weight.detach().numpy()[0], wanted, rtol=1e-6)
    assert bias.item() == pytest.approx(0.99)
    weight.grad, bias.grad = torch.tensor([[1.0, 1.0]]), torch.tensor([0.0])
    lamb.step()
    mean, square = (0.9 * 0.1 * 7) / (1 - 0.81), (0.99 * 0.01 * 49) / (1 - 0.99**2)
    assert bias.item() == pytest.approx(0.99 - 0.01 * mean / math.sqrt(square))


def test_masking_hides_the_shares_of_the_rule():
    masker = masked_text.Masker(128, 0.15, kinds=50, mask=50)
    tokens = torch.randint(0, 50, (400, 128))
    hidden = masker.hide(tokens.numpy(), [np.random.default_rng(row) for row in range(400)])
    guesses = masked_text.Guesses(*map(torch.from_numpy, hidden))
    assert guesses.places.shape == (400, round(0.15 * 128))
    assert all(len(set(row)) == len(row) for row in guesses.places.tolist())
    assert torch.equal(guesses.labels, tokens.gather(1, guesses.places))
    shown = guesses.tokens.gather(1, guesses.places)
    assert (shown == 50).float().mean() == pytest.approx(0.8, abs=0.02)
    # One in fifty of the replaced ones is the same by chance.
    assert ((shown != 50) & (shown != guesses.labels)).float().mean() == pytest.approx(0.1 * 0.98, abs=0.02)
    untouched = torch.ones_like(tokens, dtype=torch.bool).scatter(1, guesses.places, False)
    assert torch.equal(guesses.tokens[untouched], tokens[untouched])


def test_the_learning_rate_rises_and_falls():
    rates = [learning_rate(2.0, step, 104, 4, "cosine", 0.1) for step in (0, 3, 4, 54, 104)]
    assert rates == pytest.approx([0.5, 2.0, 2.0, 1.1, 0.2])
    assert [learning_rate(1.0, step, 200, 0, "linear") for step in (0, 50, 100)] == pytest.approx([1.0, 0.75, 0.5])
    assert learning_rate(1.0, 500, 200, 0, "linear") == 0.0
    assert learning_rate(1.0, 500, 200, 0, "constant") == 1.0


def test_flagperfs_parameters_count_samples():
    shared = load("bert/shared")
    params = {**shared.PARAMETERS, "train_batch_size": 5, "gradient_accumulation_steps": 2, "max_steps": 100}
    params.update(max_samples_termination=1001, eval_interval_samples=200, eval_iter_start_samples=100)
    found = shared.steps(params | {"warmup_steps": 0, "warmup_proportion": 0.1}, world=2)
    assert found == (51, 10, 10, 5)


def test_a_checkpoint_of_another_vocabulary_is_refused_by_what_differs(tmp_path):
    """Even where the shapes are the same."""

    def parts(text: str, heads: int = 2) -> Parts:
        found = corpus(tmp_path / text[:1] / "a.txt", text.encode() * 20)
        model = small_gpt2(vocabulary=found.kinds, heads=heads)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        return Parts(model, optimizer, facts=trainmark_text.facts("gpt2", found, heads))

    trainmark_checkpoint.save(tmp_path, 1, parts("abcd"), ALONE)
    path = str(tmp_path / "step-000000001.pt")
    trainmark_checkpoint.start_from(path, parts("dcba"), ALONE)
    with pytest.raises(InputError, match="another model: its vocabulary has 4 entries and has 'a'; wanted are 4"):
        trainmark_checkpoint.start_from(path, parts("xbcd"), ALONE)
    with pytest.raises(InputError, match="another model: heads is 2, wanted is 4"):
        trainmark_checkpoint.resume(tmp_path, parts("abcd", heads=4), ALONE)
