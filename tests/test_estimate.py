"""How long a run takes, from a few of its batches."""

from elmo_bench import build
from elmo_bench.estimate import estimate


def test_the_time_of_what_is_missing_and_no_file(tiny, tmp_path):
    settings = [f"cache_dir={tmp_path}/cache", "fit.batch_size=1"]
    cfg, off = tiny(*settings), tiny(*settings, "elmo.cache=off")
    data = build.data(cfg)
    sentences = {tuple(sentence) for sentence in data.all_sentences}
    before = sorted(tmp_path.rglob("*"))
    (first, each_batch) = (
        estimate(one, build.elmo(one), data.examples["train"], sentences) for one in (cfg, off)
    )
    assert sorted(tmp_path.rglob("*")) == before
    assert min(first.store, first.epoch, each_batch.epoch) > 0 == each_batch.store
    assert 1 <= first.timed < first.batches == len(data.examples["train"])
    build.store(cfg, build.elmo(cfg), data).close()
    again = estimate(cfg, build.elmo(cfg), data.examples["train"], sentences)
    assert again.store == 0 < again.epoch
