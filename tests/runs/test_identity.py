"""When two runs are the same: the settings that act, and the contents of their files."""

import gzip
import os
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from elmo_bench.build import encoders
from elmo_bench.runs import Run, hash_files, identity_of, num_layers_in, settings_digest
from elmo_bench.runs.identity import EARLIER
from elmo_bench.settings.inputs import encoder_files
from tests.conftest import composed

GROUPS = ("data", "finetune", "trainer", "logger", "job", "schedule", "encoder", "sweep", "task")


@pytest.fixture(scope="module")
def identity():
    """The identity of the default config with some keys set; a group's option is composed."""
    default = composed()

    def build(*overrides, inputs=(), digest=None):
        pairs = [override.partition("=") for override in overrides]
        is_composed = any(key in GROUPS for key, _, _ in pairs)
        cfg = composed(*overrides) if is_composed else default.copy()
        for key, _, value in pairs:
            if key not in GROUPS:
                OmegaConf.update(cfg, key, yaml.safe_load(value))
        return digest(cfg) if digest else identity_of(cfg, dict(inputs))

    return build


@pytest.mark.parametrize(
    ("command", "same"),
    [
        ("run_dir=here outputs_dir=there data_dir=data cache_dir=cache", ""),
        ("resume=true num_workers=2 logger=wandb", ""),
        ("trainer=cpu trainer.enable_progress_bar=false", ""),
        ("trainer.devices=[3]", ""),
        ("trainer.devices=[0,2]", "trainer.devices=2"),
        ("store.mode='off' store.dtype=float16", ""),
        ("store.mode=memory store.dtype=int8", "store.dtype=int8"),
        ("encoder=none store.dtype=int8", "encoder=none"),
        ("adapt.epochs=7 adapt.seed=2", ""),
        ("tf32=false", ""),
        ("embed.freeze=true", ""),  # random vectors are never frozen
        ("vocab.lowercase=false vocab.unit_vectors=true", ""),
        # The way to a setting does not count.
        ("elmo.l2=1", "elmo.l2=1.0"),
        # A mix of one layer has no rate of its own, and lambda no share to act on.
        ("elmo.mix=top elmo.mix_lr=0.1", "elmo.mix=top"),
        *(
            (f"elmo.mix={mix} elmo.l2=0.1", f"elmo.mix={mix} elmo.l2=1")
            for mix in ("top", "uniform", 0, "[2]")
        ),
    ],
)
def test_settings_that_change_no_figure(identity, command, same):
    assert identity(*command.split()) == identity(*same.split())


@pytest.mark.parametrize(
    "key",
    [key for key in EARLIER if not key.startswith("trained_on.")],  # which only evaluations have
)
def test_a_run_from_before_a_setting_has_its_default(key):
    """It is the same run as one with the default, for an identity and for a report."""
    cfg = composed()
    section, _, name = key.rpartition(".")
    holder = OmegaConf.select(cfg, section) if section else cfg
    OmegaConf.set_struct(cfg, False)
    holder[name] = EARLIER[key]
    now, identity = Run(Path(), OmegaConf.to_container(cfg)), identity_of(cfg, {})
    del holder[name]
    assert identity_of(cfg, {}) == identity
    assert Run(Path(), OmegaConf.to_container(cfg)).settings[key] == now.settings[key]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("trainer.precision=32", "trainer.precision=32-true"),
        ("trainer.precision=null", "trainer.precision='32'"),
        ("trainer.precision=16", "trainer.precision=16-mixed"),
        ("trainer.precision=bf16", "trainer.precision=bf16-mixed"),
        ("elmo.at=[output,input]", "elmo.at=[input,output]"),
        ("trainer.gradient_clip_val=0", "trainer.gradient_clip_val=null"),
        (
            "trainer.gradient_clip_val=0 trainer.gradient_clip_algorithm=value",
            "trainer.gradient_clip_val=null",
        ),
        ("elmo.mix=[1]", "elmo.mix=1"),
        ("data.folds=5 data.fold=2 seed=7", "data.folds=5 seed=7"),
        ("data=cola data.folds=5 data.held_out=0.2", "data=cola data.folds=5"),
        ("data.fold=2", "data.fold=null"),
        ("elmo.mix=[2,0]", "elmo.mix=[0,2]"),
        ("trainer=smoke store.dtype=int8", "trainer=smoke"),
        ("encoder=static vocab.vectors=v store.dtype=int8", "encoder=static vocab.vectors=v"),
    ],
)
def test_settings_that_are_written_in_two_ways(identity, one, other):
    """They are one run, for a sweep and a report, too."""
    one, other = ["trainer=auto", *one.split()], ["trainer=auto", *other.split()]
    assert identity(*one) == identity(*other)
    assert identity(*one, digest=settings_digest) == identity(*other, digest=settings_digest)


@pytest.mark.parametrize(
    ("one", "other", "num_layers"),
    [
        ("top", 2, 3),
        ("top", [2], 3),
        ("all", [2, 0, 1], 3),
        ("all", "top", 1),
        ("uniform", 0, 1),
    ],
)
def test_layers_that_are_written_in_two_ways(one, other, num_layers):
    cfgs = [composed(f"elmo.mix={mix}".replace(" ", "")) for mix in (one, other)]
    assert len({identity_of(cfg, {}, num_layers) for cfg in cfgs}) == 1
    assert len({identity_of(cfg, {}, num_layers + 1) for cfg in cfgs}) == 2
    assert len({identity_of(cfg, {}) for cfg in cfgs}) == 2  # the encoder may have more layers


def test_the_number_of_layers_by_an_encoders_files(tmp_path):
    """As the encoder itself counts them."""
    cfg = composed("encoder=mini")
    files = encoder_files(cfg)
    assert num_layers_in(files) == encoders.encoder(cfg).num_layers == 3
    assert num_layers_in({"encoder.vectors": tmp_path}) == 1
    config = tmp_path / "config.json"
    for text, number in (
        ('{"model_type": "bert", "num_hidden_layers": 6}', 7),
        ('{"model_type": "unheard-of", "num_hidden_layers": 6}', None),
        ('{"model_type": "bert"}', None),
        ("no JSON", None),
    ):
        config.write_text(text)
        assert num_layers_in({"encoder.config.json": config}) == number
    assert num_layers_in({}) is None


@pytest.mark.parametrize(
    "command",
    [
        *("seed=3", "tf32=true", "elmo.l2=0.5", "elmo.adapt=true", "store.dtype=float16"),
        *("finetune=full", "finetune=lora", "finetune=full finetune.lr=0.5"),
        *("elmo.adapt=true adapt.epochs=7", "schedule=linear_warmup", "elmo.mix_lr=0.1"),
        *("task.optimizer.weight_decay=0.1", "elmo.mix=top", "trainer.precision=bf16-mixed"),
        *("trainer=ddp", "fit.batch_size=7", "data.size=10", "job=pretrain", "elmo.dropout=0.1"),
    ],
)
def test_settings_that_act(identity, command):
    assert identity(*command.split()) != identity()


def test_every_baseline_is_one_run(identity):
    """Whichever encoder it is a baseline of; and the paper's of SNLI has less to regularise it."""
    ways = ["encoder=none"], ["encoder=mini", "elmo.mix=none"], ["elmo.mix=none"]
    for digest in (settings_digest, None):
        assert len({identity(*way, digest=digest) for way in ways}) == 1
        paper = ["sweep=table1", "task=snli"]
        assert len({identity(*paper, *way, digest=digest) for way in ways}) == 1


@pytest.mark.parametrize("baseline", ["encoder=none", "elmo.mix=none"])
def test_what_stands_below_elmo_does_nothing_in_the_baseline(identity, baseline):
    changed = ["elmo.at=[output]", "elmo.l2=7", "elmo.norm=word", "finetune=full"]
    changed += ["elmo.adapt=true", "elmo.dropout=0", "finetune.lr=1", "adapt.epochs=9"]
    assert identity(baseline, *changed) == identity(baseline)
    assert identity(baseline, "fraction=0.5") != identity(baseline)


def test_an_encoder_that_reads_texts_apart_is_asked_for_no_more(identity):
    """One that reads them in one sequence gives other figures so; no run asked for it before."""
    joint, apart = ["task=squad", "task.joint=true"], ["task=squad", "task.joint=false"]
    for digest in (settings_digest, None):
        for encoder in ("encoder=mini", "encoder=none"):
            assert identity(encoder, *joint, digest=digest) == identity(
                encoder, *apart, digest=digest
            )
        bert = ["encoder=bert_base", *joint]
        assert identity(*bert, digest=digest) != identity(bert[0], *apart, digest=digest)
        assert identity(*bert, "elmo.mix=none") == identity("encoder=none", *apart)


def test_runs_of_a_sweep_that_are_one(identity):
    """Those that differ in what does nothing; not those on which somebody compares the speed."""

    def number(*runs):
        return len({identity(*run, digest=settings_digest) for run in runs})

    assert number(["encoder=none", "elmo.mix=all"], ["encoder=none", "elmo.mix=top"]) == 1
    assert number(["elmo.mix=none", "run_dir=a"], ["elmo.mix=none", "elmo.l2=7", "run_dir=b"]) == 1
    assert number(["encoder=mini"], ["encoder=none"]) == 2
    assert number(["num_workers=0"], ["num_workers=2"]) == 2
    assert number(["vocab.vectors=a"], ["vocab.vectors=b"]) == 2
    assert number(["store.mode=auto"], ["store.mode='off'"]) == 2


def test_which_table_of_the_paper_a_run_is_for_does_not_count(identity):
    runs = [f"sweep=table{number}" for number in (1, 2, 3)]
    assert len({identity(run, "task=srl", "elmo.mix=all", "elmo.l2=0.001") for run in runs}) == 1


def test_the_folder_of_a_transformer_does_not_count_but_its_name_on_the_hub_does(
    identity, tmp_path
):
    names = [str(tmp_path / "a"), str(tmp_path / "b"), "org/a", "org/b"]
    for name in names[:2]:
        Path(name).mkdir()
    for key in ("model", "adapter"):
        runs = [["encoder=transformer", f"encoder.{key}={name}"] for name in names]
        first, second, *others = [identity(*run) for run in runs]
        assert first == second
        assert len({first, *others}) == 3
        # A sweep over two folders is two runs: their files are not read yet.
        assert len({identity(*run, digest=settings_digest) for run in runs}) == 4


def test_a_corpus_without_a_name_of_its_own_may_move(identity):
    runs = [["data=files", f"data.files.train={folder}/a.txt"] for folder in "xy"]
    assert identity(*runs[0]) == identity(*runs[1]) != identity(*runs[0], "data.name=mine")


def test_an_encoder_of_ones_own_may_call_anything_its_weights(identity, tmp_path):
    """Names count, and the contents of folders too."""
    own = ["encoder=files", "encoder._target_=mine.Encoder"]
    assert identity(*own, "encoder.weights=a") != identity(*own, "encoder.weights=b")
    assert identity("encoder=files", "encoder.weights=a") == identity(
        "encoder=files", "encoder.weights=b"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "scale.txt").write_text("1")
    cfg = composed("data=sample", *own, f"encoder.weights={tmp_path}")
    found = encoder_files(cfg)
    assert found == {"encoder.weights/in/scale.txt": tmp_path / "in" / "scale.txt"}
    cfg = composed("data=sample", *own, f"+encoder.path={tmp_path}/in/scale.txt")
    assert encoder_files(cfg) == {"encoder.path": tmp_path / "in" / "scale.txt"}
    file = tmp_path / "in" / "scale.txt"
    nested = (
        f"+encoder.parts={{a:{file}}}",
        f"+encoder.files=[{file},x]",
        f"cache_dir={tmp_path}/in",
    )
    no_path = "+encoder.sep=.", f"+encoder.prompt={'x' * 300}", "+encoder.mark='~x'", "+encoder.n=3"
    cfg = composed("data=sample", *own, *nested, *no_path, f"+encoder.cache={tmp_path}/in")
    assert encoder_files(cfg) == {"encoder.parts.a": file, "encoder.files.0": file}


def test_contents_of_files_count_and_not_their_names(identity, tmp_path):
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).write_bytes(content)
    hashes = {name: hash_files({"data.train": tmp_path / name}) for name in "abc"}
    assert identity(inputs=hashes["a"]) == identity("data_dir=elsewhere", inputs=hashes["b"])
    assert identity(inputs=hashes["a"]) != identity(inputs=hashes["c"])


def test_a_text_and_its_gz_are_one_corpus(tmp_path):
    """Whatever gzip writes into the head of the file, such as a time."""
    text = b"a corpus\n" * 1000
    (tmp_path / "a.txt").write_bytes(text)
    for name, time in (("b.txt.gz", 1), ("c.txt.gz", 2)):
        (tmp_path / name).write_bytes(gzip.compress(text, mtime=time))
    hashes = hash_files({path.name: path for path in tmp_path.iterdir()})
    assert len({*hashes.values()}) == 1
    (tmp_path / "damaged.gz").write_bytes(b"no gzip")
    with pytest.raises(ValueError, match=r"damaged\.gz: it is not gzipped"):
        hash_files({"data.train": tmp_path / "damaged.gz"})


def test_a_file_is_hashed_again_if_it_changes(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"0")
    first = hash_files({"w": path})
    before = path.stat().st_mtime_ns
    path.write_bytes(b"1")
    os.utime(path, ns=(before, before + 10))
    assert hash_files({"w": path}) != first
