"""Hold our prices against litellm's own calculator.

Python bench/prices.py [providers=openai,anthropic,…].

Prints how long the first and the next price take, without litellm in the process. Then bills every
chat model of the table of these providers four times (short and long prompts, cached, written and
reasoning tokens), by our rates and by `litellm.completion_cost`. They may differ where litellm
gives a discount by the time of day, or takes a name for a class of sizes; anything else is printed
and ends in exit 1. Takes half a minute, most of it litellm's.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from math import isclose
from typing import Any, NamedTuple

from document import terminal

from alps.llm.prices import Used, price_of, table

PROVIDERS = (
    "openai,anthropic,gemini,azure,xai,mistral,deepseek,groq,dashscope,bedrock_converse,together_ai"
)
MODES = ("chat", "responses", "completion")
USED = (
    Used(10_000, 500),
    Used(10_000, 500, cached=8_000, cache_write=1_000, reasoning=400),
    Used(300_000, 2_500),
    Used(300_000, 2_500, cached=100_000, cache_write=50_000, reasoning=1_000),
)


class Bill(NamedTuple):
    """What a model costs by our rates and by litellm's calculator, None where it is not known.

    `reason` excuses it.
    """

    provider: str
    model: str
    ours: float | None
    theirs: float | None
    reason: str | None

    @property
    def kind(self) -> str:
        """How the two bills compare."""
        if self.ours is None:
            return "unknown" if not self.theirs else self.reason or "unknown to us alone"
        if self.theirs is None:
            return "known to us alone"
        same = isclose(self.ours, self.theirs, rel_tol=1e-9)
        return "same" if same else self.reason or "different"


def timed() -> str:
    """Say how long the first price of a process takes, and the next ones."""
    started = time.perf_counter()
    price_of("openai/gpt-4.1-mini")
    first = time.perf_counter()
    names = [f"openai/name-{number}" for number in range(1_000)]
    for name in names:
        price_of(name)
    each = (time.perf_counter() - first) / len(names)
    loaded = "litellm is loaded" if "litellm" in sys.modules else "without litellm"
    return (
        f"The first price takes {(first - started) * 1e3:.0f} ms, the next {each * 1e6:.0f} µs "
        f"each, {loaded}."
    )


def bills(providers: set[str]) -> Iterator[Bill]:
    """Yield the bills of every model of these providers."""
    for key, entry in table().items():
        provider = str(entry.get("litellm_provider"))
        if provider in providers and entry.get("mode") in MODES:
            model = key if "/" in key else f"{provider.removesuffix('_converse')}/{key}"
            reason = reason_of(model, entry)
            for used in USED:
                yield Bill(
                    provider, model, price_of(model).cost_of(used), theirs(model, used), reason
                )


def reason_of(model: str, entry: Mapping[str, Any]) -> str | None:
    """Say why a bill may differ."""
    if "off_peak_pricing" in entry:
        return "time of day"
    return "class of sizes" if model.startswith("together_ai/") else None


def theirs(model: str, used: Used) -> float | None:
    """Return the bill of litellm's calculator."""
    from litellm import ModelResponse, Usage, completion_cost
    from litellm.types.utils import CompletionTokensDetailsWrapper, PromptTokensDetailsWrapper

    asked = PromptTokensDetailsWrapper(
        cached_tokens=used.cached, cache_write_tokens=used.cache_write
    )
    usage = Usage(
        prompt_tokens=used.prompt,
        completion_tokens=used.completion,
        total_tokens=used.prompt + used.completion,
        prompt_tokens_details=asked,
        completion_tokens_details=CompletionTokensDetailsWrapper(reasoning_tokens=used.reasoning),
    )
    try:
        return float(
            completion_cost(completion_response=ModelResponse(model=model, usage=usage, choices=[]))
        )
    except Exception:  # litellm raises whatever comes where it has no price
        return None


def main() -> None:
    """Time, compare, print, and exit."""
    words = dict(word.partition("=")[::2] for word in sys.argv[1:])
    if set(words) - {"providers"}:
        sys.exit("This benchmark takes providers=, or nothing.")
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    print(timed())
    import litellm

    litellm.suppress_debug_info = True
    found = list(bills(set(words.get("providers", PROVIDERS).split(","))))
    kinds = sorted({bill.kind for bill in found})
    counts = Counter((bill.provider, bill.kind) for bill in found)
    rows = [
        [name, *(f"{counts[name, kind]:,}" for kind in kinds)]
        for name in sorted({bill.provider for bill in found})
    ]
    print(terminal([["bills", *kinds], *rows]))
    wrong = [bill for bill in found if bill.kind in ("different", "unknown to us alone")]
    for bill in wrong[:40]:
        print(f"{bill.model}: {bill.ours} here, {bill.theirs} by litellm")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
