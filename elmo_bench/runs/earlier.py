"""Map the settings of earlier versions, as results and checkpoints contain them, to
today's names.
"""

from typing import Any

from .identity import as_baseline

FROM_THEN_ON = {"lr_decay": 1.0, "unfreeze": "all", "lora": None}  # behaviour before these settings
ENCODERS_OWN = (
    "name",
    "dir",
    "options",
    "weights",
    "precision",
    "pretrained",
)  # these were in the group elmo


def today(config: dict[str, Any]) -> None:
    """Rename the settings of a config in place; a config of today is unchanged."""
    elmo = config.get("elmo")
    if not isinstance(elmo, dict):
        return
    if "layer_norm" in elmo:
        elmo["norm"] = "batch" if elmo.pop("layer_norm") else "none"
    for key, value in FROM_THEN_ON.items():
        elmo.setdefault(key, value)
    if "name" in elmo:
        _split(config, elmo)
    # Baselines could have the name of an encoder, and encoder=none had a mix.
    encoder = config.get("encoder")
    if isinstance(encoder, dict) and "none" in (elmo.get("mix"), encoder.get("name")):
        as_baseline(config)


def _split(config: dict[str, Any], elmo: dict[str, Any]) -> None:
    """Two groups of the one that held the encoder, too."""
    config["rnn"] = config.pop("encoder", {})
    encoder = {key: elmo.pop(key) for key in ENCODERS_OWN if key in elmo}
    if elmo.pop("layers", None) is not None:
        encoder |= {"_target_": "elmo_bench.encoders.bilm.load", "directions": None}
    else:
        encoder = {"name": encoder["name"]}
    config["encoder"] = encoder
