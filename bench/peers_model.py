"""Make a language model of random numbers for `transformers serve`: python peers_model.py FOLDER.

Needs transformers and torch, and fetches nothing: the tokenizer is trained on the pages of this
project.
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}: {{ m.content }}<|end|>{% endfor "
    "%}<|start|>assistant: "
)


def main(folder: str) -> None:
    """Write model and tokenizer into `folder`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4000,
        special_tokens=["<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    pages = sorted((Path(__file__).resolve().parent.parent / "docs").glob("*.md"))
    tokenizer.train_from_iterator([page.read_text(encoding="utf-8") for page in pages], trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>"
    )
    wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(wrapped),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=16384,
        eos_token_id=wrapped.eos_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
