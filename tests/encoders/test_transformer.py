"""Encoders of transformers against a plain computation from transformers' own hidden states: one
sentence, one window, one word at a time.
"""

import copy
import functools
import itertools
import json
import pickle
import random
import shutil
import sys

import numpy as np
import peft
import pytest
import torch
import transformers
from lightning_fabric.utilities import move_data_to_device
from safetensors.torch import load_file, save_file

from elmo_bench.encoders import Encoder, build_store, encode, load_encoder
from elmo_bench.encoders.transformer import Transformer
from elmo_bench.encoders.transformer.subwords import BEFORE, TEXT, Subwords
from elmo_bench.jobs.train import train
from elmo_bench.nn import Tokens
from elmo_bench.text.joined import joined
from tests.encoders import random_transformers

ODD = [
    ["Ann", "did", "n't", "eat", "``", "10,000", "''", "(", "naïve", "café", ")", "—", "ﬁne", "…"],
    ["Go"],
    ["Filirn", ",", "Skahakrat", "'s", "lyrics", "!"],
]
NAMES = [*random_transformers.ARCHITECTURES]
DIFFERENT = ["bert", "deberta_v2", "gpt2", "t5"]
WINDOW = 14  # of a small one
DENSE = "encoder.layer.1.output.dense.weight"


@pytest.fixture(scope="session")
def sentences(sample_lines):
    return [*(line.split() for line in sample_lines[:4]), *ODD, " ".join(sample_lines[4:8]).split()]


@pytest.fixture(scope="session")
def folders(sample_lines, tmp_path_factory):
    """The folder of each small model, written when a test asks for it."""
    root = tmp_path_factory.mktemp("tiny")
    return functools.cache(lambda name: random_transformers.save(name, root / name, sample_lines))


@pytest.fixture(scope="session")
def encoders(folders):
    """One encoder for each folder and settings."""
    return functools.cache(lambda name, **settings: Transformer(model=folders(name), **settings))


# The plain computation.


def spans(tokenizer, sentence):
    """The ids of a sentence's raw text, and the pieces [begin, end) of each word: how many more it
    makes after the one before.
    """

    def ids(words):
        return tokenizer(" ".join(words), add_special_tokens=False).input_ids if words else []

    pairs = [sentence[max(number - 1, 0) : number + 1] for number in range(len(sentence))]
    ends = np.cumsum([len(ids(pair)) - len(ids(pair[:-1])) for pair in pairs]).tolist()
    assert ends[-1] == len(ids(sentence))
    return ids(sentence), list(zip([0, *ends[:-1]], ends, strict=True))


def windows(size, capacity):
    """The windows [begin, end) of pieces, which overlap by half."""
    begins = range(0, size, capacity - capacity // 2)
    ends = [min(begin + capacity, size) for begin in begins]
    return list(zip(begins, ends, strict=False))[: ends.index(size) + 1]


def choose(spans_, piece, causal):
    """The first of the windows with the most context around a piece."""
    inside = [span for span in spans_ if span[0] <= piece < span[1]]
    return max(
        inside,
        key=lambda span: piece - span[0] if causal else min(piece - span[0], span[1] - 1 - piece),
    )


def first_piece(tokenizer, ids):
    """The first of a word's pieces that is not only a space."""
    spaces = [token in ("▁", "Ġ", " ") for token in tokenizer.convert_ids_to_tokens(ids)]
    return spaces.index(False) if False in spaces else 0


@functools.cache
def loaded(folder, t5, **config):
    """The tokenizer and the model as transformers gives them."""
    about = transformers.AutoConfig.from_pretrained(folder)
    for key, value in config.items():
        setattr(about, key, value)
    auto = transformers.T5EncoderModel if t5 else transformers.AutoModel
    model = auto.from_pretrained(folder, config=about, dtype=torch.float32).eval()
    model = model.get_encoder() if about.is_encoder_decoder and not t5 else model
    return transformers.AutoTokenizer.from_pretrained(folder), model


def plain(folder, sentence, pooling, window=None, *, causal=False, t5=False, lead=(), **config):
    """[L][T][D] by loops over windows and words, with the words `lead` in each window."""
    tokenizer, model = loaded(folder, t5, **config)
    ids, words = spans(tokenizer, [*lead, *sentence])
    first = words[len(lead)][0]
    words = [(begin - first, end - first) for begin, end in words[len(lead) :]]
    ids, lead = ids[first:], ids[:first]
    special = tokenizer("a b").input_ids
    inner = tokenizer("a b", add_special_tokens=False).input_ids
    before = next(k for k in range(len(special)) if special[k : k + len(inner)] == inner)
    capacity = (window or 512) - (len(special) - len(inner)) - len(lead)
    hidden = {}  # of each window
    for begin, end in windows(len(ids), capacity):
        row = [*special[:before], *lead, *ids[begin:end], *special[before + len(inner) :]]
        with torch.no_grad():
            states = model(input_ids=torch.tensor([row]), output_hidden_states=True).hidden_states
        at = before + len(lead)
        hidden[begin, end] = torch.cat(states)[:, at : at + end - begin]

    def piece(number):
        span = choose(hidden, number, causal)
        return hidden[span][:, number - span[0]]

    vectors = []
    for begin, end in words:
        pieces = [piece(number) for number in range(begin, end)]
        first = first_piece(tokenizer, ids[begin:end])
        chosen = {"first": pieces[first], "last": pieces[-1], "mean": sum(pieces) / len(pieces)}
        vectors.append(chosen[pooling])
    return torch.stack(vectors, 1)


def equal(layers, expected, tolerance=1e-5):
    torch.testing.assert_close(layers, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "pooling"),
    [*((name, "first") for name in NAMES), *itertools.product(DIFFERENT, ("last", "mean"))],
)
def test_every_word_and_layer(encoders, folders, sentences, name, pooling):
    """Alone, in a batch, over windows, and some layers alone."""
    chosen = sentences if pooling == "first" else sentences[-3:]
    about = {"t5": name.startswith("t5"), "causal": name.startswith("gpt2")}
    expected = [plain(folders(name), sentence, pooling, **about) for sentence in chosen]
    encoder = encoders(name, pooling=pooling)
    assert isinstance(encoder, Encoder)
    assert (encoder.num_layers, encoder.dim, encoder.causal) == (4, 32, about["causal"])
    batch = encoder(encoder.prepare(chosen)).detach()
    for row, (sentence, vectors) in enumerate(zip(chosen, expected, strict=True)):
        equal(batch[:, row, : len(sentence)], vectors)
        assert not batch[:, row, len(sentence) :].any()
        equal(encode(encoder, [sentence])[0], vectors)
    for layers in ([0], [2], [3, 1], [3]):
        equal(encoder(encoder.prepare(chosen), layers).detach(), batch[layers])
    narrow = encoders(name, pooling=pooling, window=WINDOW)
    for sentence, vectors in zip(chosen, encode(narrow, chosen), strict=True):
        equal(vectors, plain(folders(name), sentence, pooling, WINDOW, **about))


def joined_plain(folder, texts, window=512, *, causal, t5):
    """[L][T][D] of two texts in one sequence, with the summary and the break, by loops."""
    tokenizer, model = loaded(folder, t5)
    pair = tokenizer("a", "b", return_token_type_ids=True)
    row, owners = [*zip(pair.input_ids, pair.token_type_ids, strict=True)], pair.sequence_ids(0)
    a, b = owners.index(0), owners.index(1)
    before, between, after = row[:a], row[a + 1 : b], row[b + 1 :]
    if not between:  # GPT-2 and the tokenizer without a class join texts without a mark
        between = [(tokenizer.sep_token_id or tokenizer.eos_token_id, 0)]
        before, after = ([(n, 0)] for n in (1, 2)) if not causal else ([], [])
    kinds = [kind for _, kind in (row[a], row[b])]
    (first, words), (second, more) = (spans(tokenizer, text) for text in texts)
    begin = len(first) + len(between)
    whole = [*((n, kinds[0]) for n in first), *between, *((n, kinds[1]) for n in second)]
    capacity = window - len(before) - len(after)
    fixed = begin if len(whole) > capacity and begin <= capacity // 2 else 0
    has_kinds = getattr(model.config, "type_vocab_size", 0) > max(kinds)
    hidden = {}
    for low, high in windows(len(whole) - fixed, capacity - fixed):
        row = [*before, *whole[:fixed], *whole[fixed + low : fixed + high], *after]
        ids, types = torch.tensor(row).T[:, None]
        about = {"token_type_ids": types} if has_kinds else {}
        with torch.no_grad():
            states = model(input_ids=ids, output_hidden_states=True, **about).hidden_states
        hidden[low, high] = torch.cat(states)
    tops = [each[:, 0] for each in hidden.values()]
    summary = sum(tops) / len(tops) if before else [*hidden.values()][-1][:, -1]

    def piece(number):
        if number < fixed:
            return hidden[next(iter(hidden))][:, len(before) + number]
        span = choose(hidden, number - fixed, causal)
        return hidden[span][:, len(before) + number - span[0]]

    def vector(begin, end):
        ids = [n for n, _ in whole[begin:end]]
        return piece(end - 1 if causal else begin + first_piece(tokenizer, ids))

    vectors = [summary, *itertools.starmap(vector, words), 0 * summary]
    return torch.stack([*vectors, *(vector(begin + i, begin + j) for i, j in more)], 1)


@pytest.mark.parametrize("name", NAMES)
def test_two_texts_in_one_sequence(encoders, folders, sentences, name):
    """In one window; in several, with the first text in each, or without; beside other sentences."""
    about = {"t5": name.startswith("t5"), "causal": name.startswith("gpt2")}
    pairs = [(ODD[0], ODD[2]), (ODD[1], sentences[-1]), (sentences[0], sentences[1])]
    for window in (512, 2 * WINDOW):
        encoder = encoders(name, window=window)
        mixed = [ODD[2], *(joined(*pair) for pair in pairs), joined(ODD[0])]
        layers = encode(encoder, mixed)
        equal(layers[1:4], [joined_plain(folders(name), p, window, **about) for p in pairs])
        equal(layers[0], encode(encoder, [ODD[2]])[0])
        equal(layers[4][:, 1:], encode(encoder, [ODD[0]])[0])


@pytest.mark.parametrize("name", ["roberta", "gpt2"])
def test_a_summary_of_nothing(encoders, name):
    """Of a pair without words, the special tokens are read; of a decoder, which has none, nothing."""
    layers = encode(encoders(name), [joined([]), joined([], ["Wet"]), joined(["", "a"], [])])
    assert layers[0].any() == (name == "roberta")
    assert layers[1].any(-1)[1].tolist() == [True, False, True]
    assert layers[2].any(-1)[1].tolist() == [True, False, True, False]
    with pytest.raises(ValueError, match="joins 3 texts, but a transformer reads at most two"):
        encoders(name).prepare([joined("a", "b", "c")])


@pytest.mark.parametrize(
    "name", [name for name in random_transformers.KINDS if name.replace("-", "_") not in NAMES]
)
def test_architectures(sample_lines, sentences, tmp_path, name):
    """Right in number and in value, alone and in a batch, and some layers alone."""
    sentences = sentences[-4:]
    folder = random_transformers.kind(
        name, random_transformers.tokenizer("neox", sample_lines), tmp_path
    )
    encoder = Transformer(model=folder, pooling="last")
    assert (encoder.num_layers, encoder.dim) == (4, 32)
    layers = encoder(encoder.prepare(sentences)).detach()
    scale = layers.abs().amax()
    for row, sentence in enumerate(sentences):
        vectors = plain(folder, sentence, "last", causal=encoder.causal)
        equal(layers[:, row, : len(sentence)] / scale, vectors / scale)
        equal(encode(encoder, [sentence])[0] / scale, vectors / scale)
    equal(encoder(encoder.prepare(sentences), [2, 0]) / scale, layers[[2, 0]] / scale)


def test_a_model_of_characters(sample_lines, tmp_path):
    with pytest.raises(ValueError, match="CanineModel does not return one vector per subword"):
        Transformer(
            model=random_transformers.kind(
                "canine", random_transformers.tokenizer("neox", sample_lines), tmp_path
            )
        )


def adapted(folder, out, auto, **settings):
    """An adapter that was trained below a head, and the model with it, by PEFT itself."""
    torch.manual_seed(2)
    whole = peft.get_peft_model(auto.from_pretrained(folder), peft.LoraConfig(r=4, **settings))
    with torch.no_grad():
        for name, parameter in whole.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.3 * torch.randn_like(parameter))
    whole.save_pretrained(out / "adapter")
    whole.merge_and_unload().base_model.save_pretrained(out / "merged")
    for file in folder.glob("*token*"):
        shutil.copy(file, out / "merged")
    return out / "adapter"


@pytest.mark.parametrize(
    ("name", "auto", "targets", "settings"),
    [
        ("bert", "AutoModelForSequenceClassification", "all-linear", {"use_dora": True}),
        ("bert", "AutoModelForMaskedLM", "all-linear", {"lora_bias": True}),
        ("gpt2", "AutoModelForCausalLM", ["c_attn"], {"lora_alpha": 32, "fan_in_fan_out": True}),
        ("t5", "T5EncoderModel", ["q", "wo"], {"use_rslora": True, "lora_alpha": 4}),
    ],
)
def test_an_adapter(folders, sentences, tmp_path, name, auto, targets, settings):
    """As PEFT adds it to the weights: also one that was trained below a head."""
    settings |= {"target_modules": targets}
    adapter = adapted(folders(name), tmp_path, getattr(transformers, auto), **settings)
    one = Transformer(model=folders(name), adapter=adapter)
    equal(encode(one, sentences), encode(Transformer(model=tmp_path / "merged"), sentences))
    assert one.fingerprint() != Transformer(model=folders(name)).fingerprint()
    assert all(parameter.requires_grad for parameter in one.parameters())
    assert len(one.parameter_groups()) == 4


def test_an_adapter_of_a_decoder_does_not_change_the_encoder(sample_lines, sentences, tmp_path):
    """Though the modules of both have the same names."""
    sizes = {"encoder_layers": 3, "decoder_layers": 3, "d_model": 32}
    tokenizer = random_transformers.tokenizer("RobertaTokenizer", sample_lines)
    folder = random_transformers.kind("bart", tokenizer, tmp_path / "model", **sizes)
    auto, targets = transformers.AutoModelForSeq2SeqLM, r".*\.decoder\..*fc1"
    adapter = adapted(folder, tmp_path, auto, target_modules=targets)
    equal(*(encode(Transformer(model=folder, adapter=a), sentences)[0] for a in (adapter, None)))


@pytest.mark.parametrize(
    ("settings", "model", "message"),
    [
        ({"bias": "lora_only"}, "bert", "sets bias='lora_only', but only plain LoRA"),
        ({"peft_type": "IA3"}, "bert", "sets peft_type='IA3', but only plain LoRA can be added"),
        ({"use_qalora": True}, "bert", "sets use_qalora=True, but only plain LoRA"),
        ({"alpha_pattern": {"layer.9": 3}}, "bert", "sets alpha_pattern="),
        ({"r": 8}, "bert", "size mismatch"),
        ({}, "t5", "cannot be added to this model"),
        (None, "bert", r"has no adapter_config\.json: give a folder"),
    ],
)
def test_an_adapter_that_does_not_fit(folders, tmp_path, settings, model, message):
    auto = transformers.AutoModel
    adapter = adapted(folders("bert"), tmp_path, auto, target_modules=["query"])
    if settings is None:
        (adapter / "adapter_config.json").unlink()
    else:
        path = adapter / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    with pytest.raises(ValueError, match=rf"^encoder\.adapter=.*adapter .*{message}"):
        Transformer(model=folders(model), adapter=adapter)
    with pytest.raises(ValueError, match=r"^encoder\.adapter=.* belongs to pretrained weights"):
        Transformer(model=folders(model), adapter=adapter, pretrained=False)


def test_an_adapter_beside_the_model(folders, tmp_path):
    """It would be added unasked, and a comparison with encoder.adapter would find no difference."""
    both = shutil.copytree(folders("bert"), tmp_path / "both")
    (both / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"both cannot be used .* has an adapter beside it"):
        Transformer(model=both)


WEIRD = ["´", "▁", "x▁", "\u200b", "a b", "", " ", "\ud800", "e\u0301", "\u0301a", "\ufe0f", "x\n"]
WEIRD += ["<s>", "</s>", "[MASK]", "New", "York", "the", "\ufffd", "''", "…", "1", "12345", "'s"]
WEIRD += ["don't", "東京", "👍🏽", "\x00"]


@pytest.mark.parametrize(
    "kind", sorted({each[1] for each in random_transformers.ARCHITECTURES.values()})
)
def test_a_piece_is_of_the_word_in_which_it_begins(sample_lines, kind):
    """Or before which, at the space; words of white space have none."""
    tokenizer, choice = random_transformers.tokenizer(kind, sample_lines), random.Random(1)
    subwords, backend = Subwords(tokenizer, "mean", [[5], [], [], []]), tokenizer.backend_tokenizer
    words = [*WEIRD, *(word for sentence in ODD for word in sentence)]
    for text in [line.split() for line in sample_lines] + [
        choice.choices(words, k=8) for _ in range(300)
    ]:
        numbers, entries = subwords([BEFORE, *text])
        kept = [k for k, word in enumerate(text) if word.strip()]
        raw = " ".join(text[k] for k in kept).encode("utf-8", "replace").decode()
        encoding = backend.encode(raw, add_special_tokens=False)
        owners = [k for k in kept for _ in f" {text[k]}"][1:]  # of each character
        expected, latest = {k: [] for k in range(len(text))}, 0
        for number, (begin, _) in zip(encoding.ids, encoding.offsets, strict=True):
            latest = max(latest, owners[min(begin, len(owners) - 1)])
            expected[latest].append(number)
        parts = zip(entries.starts[numbers], entries.counts[numbers], strict=True)
        pieces = [entries.ids[start : start + count].tolist() for start, count in parts]
        assert pieces == [[5], *expected.values()]


def test_little_padding(encoders, sentences, monkeypatch):
    """Windows are read shortest first, without a mask where they are of one size, each once."""
    monkeypatch.setattr("elmo_bench.encoders.transformer.transformer.BATCH_PIECES", 64)
    encoder, many = encoders("bert"), [*sentences, ["Go"] * 3, ["Go"] * 3, ["."] * 90] * 3
    given = []
    handle = encoder.model.register_forward_pre_hook(
        lambda _, __, kwargs: given.append((kwargs["input_ids"], kwargs["attention_mask"])),
        with_kwargs=True,
    )
    inputs = encoder.prepare(many)
    with torch.no_grad():
        together = encoder(inputs)
    handle.remove()
    widths = [ids.shape[1] for ids, _ in given]
    assert widths == sorted(widths)
    pieces = int(inputs.sizes.sum())
    assert sum(ids.numel() if mask is None else int(mask.sum()) for ids, mask in given) == pieces
    assert sum(ids.numel() for ids, _ in given) < 1.15 * pieces
    assert any(mask is None and len(ids) > 1 for ids, mask in given)
    assert all(mask is None or not mask.all() for _, mask in given)
    for row, sentence in enumerate(many):
        equal(together[:, row, : len(sentence)], encode(encoder, [sentence])[0])


def test_a_batch_may_be_cut(encoders, sentences):
    encoder = encoders("bert", window=WINDOW)
    inputs = encoder.prepare(sentences)
    whole = encoder(inputs)
    for part in (slice(0, 3), slice(5, None), slice(4, 4)):
        cut = type(inputs)(*(tensor[part] for tensor in inputs))
        equal(encoder(cut), whole[:, part])
    assert encoder(encoder.prepare([])).shape == (4, 0, 0, 32)
    assert encoder(encoder.prepare([[], []])).shape == (4, 2, 0, 32)


@pytest.mark.parametrize("name", ["bert", "gpt2", "deberta_v2"])
def test_words_without_pieces(encoders, name):
    """They are zeros and change nothing of the others."""
    encoder, empty = encoders(name), ["\x00", "\u200b", "\ufffd"] if name == "bert" else []
    layers = encode(encoder, [["", "Ann", " ", "sings", "", *empty], [""], ["Go"]])
    assert not layers[0][:, [0, 2, *range(4, 5 + len(empty))]].any()
    assert not layers[1].any()
    equal(layers[0][:, [1, 3]], encode(encoder, [["Ann", "sings"]])[0])
    equal(*(encode(encoder, [["a", word]])[0] for word in ("b\ud800", "b?")))


@pytest.mark.parametrize(("name", "pooling"), [("gpt2", "mean"), ("t5", "last"), ("bert", "mean")])
def test_a_word_of_10_000_characters(encoders, folders, name, pooling):
    """Its pieces are read in many windows, and those around it too."""
    about = {"t5": name.startswith("t5"), "causal": name.startswith("gpt2")}
    sentence = ["Ann", "said", "ab" * 5000, "and", "slept"]
    encoder = encoders(name, pooling=pooling)
    expected = plain(folders(name), sentence, pooling, encoder.window, **about)
    equal(encode(encoder, [sentence])[0], expected)


def test_models_of_another_make(sample_lines, tmp_path):
    """ALBERT has one block for all layers, which is one group; ConvBERT's convolutions read
    padding, so that sentences of several lengths are no batch. `test_architectures` has their
    vectors.
    """
    tokens = random_transformers.tokenizer("BertTokenizer", sample_lines)
    albert = Transformer(model=random_transformers.kind("albert", tokens, tmp_path / "albert"))
    assert len(albert.parameter_groups()) == 1
    assert not Transformer(
        model=random_transformers.kind("convbert", tokens, tmp_path / "convbert")
    )._pads


def test_a_padding_id_without_an_embedding(sample_lines, tmp_path):
    folder = random_transformers.save(
        "gpt2", tmp_path, sample_lines, pad_token_id=random_transformers.ENTRIES
    )
    batch = encode(Transformer(model=folder), [["Go"], ODD[2]])
    equal(batch[0], encode(Transformer(model=folder), [["Go"]])[0])


@pytest.mark.parametrize("name", [*DIFFERENT, "modernbert"])
def test_fine_tuning(folders, sentences, name):
    """The gradient reaches every layer below the highest one, with and without checkpoints; groups
    go from the top down.
    """
    encoders = [
        Transformer(model=folders(name), gradient_checkpointing=value) for value in (False, True)
    ]
    chosen = sentences[:3]
    gradients = []
    for encoder in encoders:
        encoder.train()
        torch.manual_seed(0)  # the same dropout, which a checkpoint draws again
        encoder(encoder.prepare(chosen), [0, 2]).square().mean().backward()
        gradients.append([parameter.grad for parameter in encoder.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert (one is None or not one.any()) == (other is None or not other.any())
        if one is not None and other is not None:
            equal(one, other, 1e-4)
    groups = encoders[0].parameter_groups()
    assert len(groups) == 4
    assert sorted(map(id, itertools.chain(*groups))) == sorted(map(id, encoders[0].parameters()))
    reached = [any(p.grad is not None and p.grad.any() for p in group) for group in groups]
    assert reached == [False, True, True, True]
    assert groups[-1][0] is encoders[0].model.get_input_embeddings().weight


def test_a_final_norm_is_of_the_top_group(encoders):
    names = {p: name for name, p in encoders("gpt2").named_parameters()}
    top, *_, last = ([names[p] for p in group] for group in encoders("gpt2").parameter_groups())
    assert "model.ln_f.weight" in top
    assert last == ["model.wte.weight", "model.wpe.weight"]


@pytest.mark.parametrize(("name", "dtype"), [("deberta_v2", "bfloat16"), ("t5", "float16")])
def test_low_precision(folders, encoders, sentences, name, dtype):
    encoder = Transformer(model=folders(name), dtype=dtype, window=WINDOW)
    layers = encoder(encoder.prepare(sentences))
    assert layers.dtype == getattr(torch, dtype)
    assert layers.isfinite().all()
    exact = encoders(name, window=WINDOW)
    near = exact(exact.prepare(sentences))
    assert (layers.float() - near).norm() < 0.1 * near.norm()


def test_a_fingerprint(folders, tmp_path):
    """Another with whatever changes a number; the same for the same files, wherever they are and
    whatever was read.
    """
    base = Transformer(model=folders("bert"))
    first = base.fingerprint()
    encode(base, [["Ann", "sings"]])
    copied = shutil.copytree(folders("bert"), tmp_path / "copy")
    same = base, Transformer(model=copied), copy.deepcopy(base)
    assert {each.fingerprint() for each in same} == {first}
    others = [{"pooling": "mean"}, {"dtype": "bfloat16"}, {"window": 32}]
    prints = {Transformer(model=folders("bert"), **settings).fingerprint() for settings in others}
    prints.add(Transformer(model=folders("electra")).fingerprint())
    torch.manual_seed(0)
    prints.add(Transformer(model=folders("bert"), pretrained=False).fingerprint())
    with torch.no_grad():
        base.model.encoder.layer[0].output.dense.bias[0] += 1
    prints.add(base.fingerprint())
    assert len(prints | {first}) == len(others) + 4


def test_it_may_be_copied_and_sent(encoders, sentences):
    """With its blocks, also after it has read: a copy keeps none of the model that it was copied
    from.
    """
    encoder = encoders("modernbert", pooling="mean")
    expected = encoder(encoder.prepare(sentences), [1])
    for other in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        equal(other(other.prepare(sentences), [1]), expected)
        assert other._blocks[0] is other.model.layers[0]
        assert other._blocks[0] is not encoder._blocks[0]


# Bad input.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": None}, r"encoder\.model is empty"),
        ({"window": 2}, r"encoder\.window=2, but this model's must be 3 to 512, with 2 special"),
        ({"window": 513}, r"encoder\.window=513, .* must be 3 to 512"),
    ],
)
def test_settings_that_it_does_not_have(folders, settings, message):
    with pytest.raises(ValueError, match=message):
        Transformer(**({"model": folders("bert")} | settings))


def test_a_model_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    said = r"^encoder\.model=.*nothing.* cannot be loaded: there is no"
    for name in (tmp_path / "nothing", "./nothing", "~/nothing/at/all", "nobody/nothing"):
        with pytest.raises(OSError, match=said):
            Transformer(model=name)
    said = r"huge: not a biLM that ships with elmo-bench \(.*mini.*\)"
    with pytest.raises(FileNotFoundError, match=said):
        load_encoder("huge")


@pytest.fixture
def broken(folders, tmp_path):
    """A copy of the small BERT, to be broken."""
    return shutil.copytree(folders("bert"), tmp_path / "broken")


def change(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("hidden_size", 64), ("hidden_size", 33), ("num_hidden_layers", 5)),
        *(("vocab_size", 2**30), ("num_hidden_layers", 10**8)),
    ],
)
def test_a_config_that_is_not_of_these_weights(broken, key, value):
    change(broken, **{key: value})
    with pytest.raises(ValueError, match=r"encoder\.model=.*broken"):
        Transformer(model=broken)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_damaged_files_are_named(broken, name):
    """Whatever the errors of transformers and of the tokenizer are."""
    content = (broken / name).read_bytes()
    generator = random.Random(name)
    errors = []
    for _ in range(8):
        damaged = bytearray(content)
        for _ in range(3):
            damaged[generator.randrange(len(content))] = generator.choice(b'"[]{}:,019-ex')
        (broken / name).write_bytes(damaged)
        try:
            Transformer(model=broken)
        except (ValueError, OSError) as error:
            errors.append(str(error))
    (broken / name).write_bytes(b"[" * 100_000)
    with pytest.raises((ValueError, OSError), match=r"encoder\.model=.*broken"):
        Transformer(model=broken)
    assert errors
    assert all(error.startswith(f"encoder.model={broken}") for error in errors)


def weights(folder, change):
    """Change the weights in a folder."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def pickled(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def with_code(folder):
    (folder / "theirs.py").write_text("raise SystemExit('their code ran')\n")
    code = {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}
    change(folder, model_type="theirs", auto_map=code)


def without_tokenizer(folder):
    for file in folder.glob("*token*"):
        file.unlink()


def with_a_tokenizer_in_python(folder):
    without_tokenizer(folder)
    transformers.ByT5Tokenizer().save_pretrained(folder)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda at: weights(at, lambda w: w[DENSE].fill_(torch.nan)),
            f"{DENSE} contains .* not finite",
        ),
        (lambda at: weights(at, lambda w: w.pop(DENSE)), rf"no weights for {DENSE} \(1 in all\)"),
        (pickled, r"a file is missing or .*pytorch_model\.bin can run code: save .* with"),
        (with_code, "requires remote code, which is never run"),
        (without_tokenizer, r"this folder has no tokenizer\.json"),
        (lambda at: (at / "config.json").unlink(), r"this folder has no config\.json"),
        (with_a_tokenizer_in_python, "its tokenizer, ByT5Tokenizer, is written in Python"),
        (lambda at: change(at, model_type="nobody_knows"), "nobody_knows"),
        (
            lambda at: (at / "config.json").write_text('{"model_type": "vit"}'),
            "cannot be used as a text encoder: its type is vit",
        ),
        (
            lambda at: change(at, attn_implementation="kernels-community/flash-attn2"),
            r"others may be remote code: edit this config\.json",
        ),
    ],
)
def test_a_folder_that_cannot_be_read(broken, break_it, message):
    break_it(broken)
    with pytest.raises((ValueError, OSError), match=rf"^encoder\.model=.*broken.*{message}"):
        Transformer(model=broken)


def test_heads_may_be_missing_or_left_over(broken, encoders, sample_lines):
    weights = load_file(broken / "model.safetensors")
    kept = {f"bert.{name}": value for name, value in weights.items() if "pooler" not in name}
    kept["cls.predictions.bias"] = torch.zeros(3)
    save_file(kept, broken / "model.safetensors", metadata={"format": "pt"})
    sentence = sample_lines[0].split()
    equal(encode(Transformer(model=broken), [sentence])[0], encode(encoders("bert"), [sentence])[0])


@pytest.mark.parametrize("name", ["all.bin", "../outside.safetensors", "/x.safetensors", None])
def test_an_index_names_safetensors_alone(broken, name):
    """Otherwise transformers unpickles all.bin, and reads outside of the folder."""
    weights = load_file(broken / "model.safetensors")
    torch.save(weights, broken / "all.bin")
    shutil.copy(broken / "model.safetensors", broken.parent / "outside.safetensors")
    (broken / "model.safetensors").rename(broken / "one.safetensors")
    index = "other.safetensors.index.json"
    change(broken, transformers_weights=index)
    for file in ("one.safetensors", name):
        about = {"metadata": {}, "weight_map": dict.fromkeys(weights, file)}
        (broken / index).write_text(json.dumps(about))
        if file == "one.safetensors":
            Transformer(model=broken)
            continue
        said = rf"encoder\.model=.*broken .*: {index} names {name!r}"
        with pytest.raises(ValueError, match=said):
            Transformer(model=broken)


def test_a_subword_that_was_added_to_the_tokenizer(broken):
    tokenizer = transformers.AutoTokenizer.from_pretrained(broken)
    tokenizer.add_tokens([f"q{number}q" for number in range(384)])
    tokenizer.save_pretrained(broken)
    with pytest.raises(ValueError, match=r"has more subwords than the model has embeddings \(384"):
        Transformer(model=broken)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "elmo_bench.encoders.transformer.load")
    with pytest.raises(ImportError, match=r"pip install .*\[transformers\]"):
        Transformer(model="anything")


def test_the_encoder_alone(folders, sentences, tmp_path):
    """A folder of T5's encoder, as transformers saves it without the decoder, gives its layers."""
    shutil.copytree(folders("t5"), tmp_path, dirs_exist_ok=True)
    transformers.T5EncoderModel.from_pretrained(folders("t5")).save_pretrained(tmp_path)
    whole, alone = (encode(Transformer(model=f), sentences) for f in (folders("t5"), tmp_path))
    assert all(map(torch.equal, whole, alone))


# A whole run.


def test_a_word_is_no_special_piece(encoders):
    """Where the vocabulary lets it be read as something else."""
    pieces = encoders("roberta").prepare([["a", "</s>", "b", "<pad>"]])
    tokenizer = encoders("roberta").windows.subwords.tokenizer
    inner = pieces.ids[0, 0, 1 : pieces.sizes[0, 0] - 1].tolist()
    assert not {*inner} & {tokenizer.eos_token_id, tokenizer.pad_token_id}


def test_pieces_stay_on_the_host(folders):
    """Where the model lays them out, when Lightning moves a batch."""
    inputs = Transformer(model=folders("bert")).prepare([["a", "b"]])
    tokens = Tokens(*torch.ones(2, 1, 2), lengths=np.array([2]), elmo=inputs)
    moved = move_data_to_device(tokens, torch.device("meta"))
    assert moved.mask.is_meta
    for some in (moved, moved.cut([0], 1)):
        assert {part.device.type for part in some.elmo} == {"cpu"}


@pytest.mark.parametrize("bits", ["encoder.dtype=bfloat16", "trainer.precision=bf16-true"])
def test_sixteen_bits_are_not_fine_tuned(tiny_ner, folders, bits):
    model = ["encoder=transformer", f"encoder.model={folders('bert')}", bits]
    with pytest.raises(ValueError, match=r"finetune=full needs float32 weights"):
        train(tiny_ner(*model, "finetune=full"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_on_a_gpu(folders, sentences, pooling, monkeypatch, tmp_path):
    """In bfloat16, in several parts, from `encode` and from a store."""
    exact = Transformer(model=folders("bert"), pooling=pooling)
    near = Transformer(model=folders("bert"), pooling=pooling, dtype="bfloat16").cuda()
    monkeypatch.setattr("elmo_bench.encoders.transformer.transformer.GPU_PIECES", 64)
    store = build_store(near, sentences, range(4), tmp_path)
    stored = store(sentences)
    for row, (layers, expected) in enumerate(
        zip(encode(near, sentences), encode(exact, sentences), strict=True)
    ):
        assert (layers.float().cpu() - expected).norm() < 0.03 * expected.norm()
        assert (stored[:, row, : len(sentences[row])] - expected).norm() < 0.03 * expected.norm()


@pytest.mark.parametrize("name", NAMES)
def test_words_of_which_the_tokenizer_knows_no_piece(encoders, sentences, name):
    """Those of bytes know all; a comma between unknown pieces is known; there are more words than
    are tokenised as one text.
    """
    telugu, mixed = "తెలుగు", "తెలుగు,తెలుగు"
    words = [telugu, mixed, *itertools.chain(*(sentences[:4] * 40)), "భాష"]
    assert len(words) > TEXT
    of_bytes = name in ("roberta", "modernbert", "gpt2")
    expected = [] if of_bytes else [telugu, "భాష"]
    misread = encoders(name).misread(words)
    assert misread.words == expected
