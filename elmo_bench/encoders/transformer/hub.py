"""Whether a model of the Hugging Face hub is in its cache, and whether the hub can be reached.

The hub's own client tries five times for each file, with pauses, before it says that it cannot.
"""

import logging
from importlib.util import find_spec
from typing import Any

from elmo_bench.files.download import is_offline

log = logging.getLogger(__name__)
SECONDS = 10.0  # for an answer of the hub
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


def is_cached(model: str, revision: str | None) -> bool:
    """Whether the hub's cache has a model's config and weights."""
    if find_spec("huggingface_hub") is None:  # it comes with transformers
        return False
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    def has(name: str) -> bool:
        return isinstance(try_to_load_from_cache(model, name, revision=revision or "main"), str)

    try:
        return has("config.json") and any(map(has, WEIGHTS))
    except HFValidationError:  # no name of a model
        return False


def is_out_of_reach(model: str, revision: str | None) -> bool:
    """Whether the hub cannot be reached, or must not be in a dry run, so that a model of its cache
    is read as it is there.

    Raises OSError if the cache does not have the model.
    """
    from huggingface_hub import constants

    if is_offline():
        return True
    if constants.HF_HUB_OFFLINE:
        return False  # its client asks nobody
    try:
        _ask(model, revision)
    except Exception as error:
        if _is_an_answer(error):  # transformers says it in its own words
            return False
        why = f"the hub cannot be reached ({type(error).__name__}: {error})"
        if is_cached(model, revision):
            log.warning("encoder.model=%s: %s; the copy in its cache is used", model, why)
            return True
        raise OSError(
            f"encoder.model={model}: {why}, and its cache {constants.HF_HUB_CACHE} does not have "
            "the model. Without a network, give a folder that has it: encoder.model=FOLDER; or "
            "download it elsewhere (--download-only), copy the cache, and set HF_HUB_OFFLINE=1"
        ) from error
    return False


def _ask(model: str, revision: str | None) -> Any:
    from huggingface_hub import model_info

    return model_info(model, revision=revision, timeout=SECONDS)


def _is_an_answer(error: Exception) -> bool:
    """Whether the hub has answered, if only that it does not have the model."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    return isinstance(error, HfHubHTTPError | HFValidationError)
