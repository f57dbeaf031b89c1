"""Small random models of seven architectures in folders, with tokenizers trained on the sample's
text.
"""

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

ENTRIES = 384  # of a vocabulary
LAYERS = {"vocab_size": ENTRIES, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZES = LAYERS | {"hidden_size": 32, "intermediate_size": 48}
POSITIONS = {"max_position_embeddings": 512}
SPREAD = {"initializer_range": 0.3}  # wide: layers and contexts differ
DEBERTA = {"relative_attention": True, "position_buckets": 16, "norm_rel_ebd": "layer_norm"}
DEBERTA |= {"share_att_key": True, "pos_att_type": ["p2c", "c2p"]}
DEBERTA |= {"position_biased_input": False, "type_vocab_size": 0}
MODERNBERT = {"local_attention": 16, "global_attn_every_n_layers": 2}
GPT2 = {"vocab_size": ENTRIES, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 512}
T5 = {"vocab_size": ENTRIES, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_heads": 4}
BERT = SIZES | POSITIONS | SPREAD
ARCHITECTURES: dict[str, tuple[str, str, dict[str, Any]]] = {  # config, tokenizer, settings
    "bert": ("BertConfig", "BertTokenizer", BERT),
    "roberta": ("RobertaConfig", "RobertaTokenizer", BERT | {"max_position_embeddings": 514}),
    "deberta_v2": ("DebertaV2Config", "DebertaV2Tokenizer", BERT | DEBERTA),
    "modernbert": ("ModernBertConfig", "neox", BERT | MODERNBERT),
    "gpt2": ("GPT2Config", "GPT2Tokenizer", SPREAD | GPT2),
    "t5": ("T5Config", "T5Tokenizer", T5 | {"initializer_factor": 0.3}),
    "electra": ("ElectraConfig", "BertTokenizer", BERT | {"embedding_size": 16}),
}


WIDE = {"num_key_value_heads": 2, "head_dim": 8}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
ROPE = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8}
GROUPS = "q_groups k_groups v_groups post_attention_groups intermediate_groups output_groups"
NAMES = """albert bert convbert deberta deberta-v2 distilbert electra ernie esm eurobert fnet gte ibert
    jina_embeddings_v3 mobilebert modernbert mpnet nomic_bert nystromformer rembert roberta-prelayernorm
    roformer squeezebert xlm xlm-roberta-xl xlnet t5 bart switch_transformers bloom cohere2 deepseek_v3
    falcon gemma3_text glm4 gpt2 gpt_neox gpt_oss granite lfm2 llama mamba mamba2 mistral modernbert-decoder
    olmo2 olmo3 phi3 qwen3 qwen3_moe rwkv smollm3"""
# All kinds of models of transformers, with what each needs besides SIZES.
KINDS: dict[str, dict[str, Any]] = {name: {} for name in NAMES.split()} | {
    "squeezebert": {"embedding_size": 32} | dict.fromkeys(GROUPS.split(), 1),
    "deepseek_v3": EXPERTS
    | ROPE
    | {"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "v_head_dim": 8},
    "gpt_oss": WIDE | EXPERTS | {"num_local_experts": 4},
    "lfm2": WIDE | {"layer_types": ["conv", "full_attention", "conv"]},
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 1, "state_size": 8},
    "qwen3_moe": WIDE | EXPERTS | {"num_experts": 4},
    "xlnet": {"d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48},
    **dict.fromkeys(("gemma3_text", "glm4", "llama", "mistral", "qwen3"), WIDE),
}


def kind(name: str, tokens: Any, folder: Path, **settings: Any) -> Path:
    """Write a model of one of KINDS into a folder."""
    special = {"pad_token_id": tokens.pad_token_id, "bos_token_id": 1, "eos_token_id": 2}
    sizes = SIZES | SPREAD | special | ({} if name == "xlnet" else POSITIONS)
    config = transformers.AutoConfig.for_model(name, **(sizes | KINDS.get(name, {}) | settings))
    return write(config, tokens, folder)


def tokenizer(name: str, lines: list[str]) -> Any:
    """A tokenizer of that class with a vocabulary of these lines; `neox` is a byte-level one
    without a class of its own.
    """
    if name != "neox":
        return getattr(transformers, name)().train_new_from_iterator(
            lines, vocab_size=ENTRIES - 16, show_progress=False
        )
    bpe = Tokenizer(models.BPE(unk_token=None))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    specials = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    about = {"special_tokens": specials, "initial_alphabet": alphabet, "show_progress": False}
    bpe.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=ENTRIES - 16, **about))
    bpe.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    names = ("unk_token", "cls_token", "sep_token", "pad_token", "mask_token")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, **dict(zip(names, specials, strict=True))
    )


def save(name: str, folder: Path, lines: list[str], **changes: Any) -> Path:
    """Write the model of an architecture, with its tokenizer, into a folder."""
    config_name, tokenizer_name, settings = ARCHITECTURES[name]
    tokens = tokenizer(tokenizer_name, lines)
    keys = [f"{token}_token_id" for token in ("pad", "bos", "eos")]
    special = {key: getattr(tokens, key) for key in keys}
    config = getattr(transformers, config_name)(**(settings | special | changes))
    return write(config, tokens, folder)


def write(config: Any, tokens: Any, folder: Path) -> Path:
    """Write a random model of this config, with a tokenizer, into a folder."""
    torch.manual_seed(1)
    model = transformers.AutoModel.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))  # norms and biases that do something
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder
