"""The same questions from an event loop, from threads, and from one loop after another."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ctxarith import (
    ArgumentError,
    Corpus,
    Principal,
    PrincipalRequired,
    Record,
    Result,
    budget,
    everyone,
    lexical,
    rrf,
    semantic,
    top,
)
from tests.conftest import NOW
from tests.fakes import WordEmbedder

PIPELINE = ((semantic | lexical) & everyone) >> rrf() >> top(2) >> budget(40)


@pytest.fixture
def memory() -> Corpus:
    corpus = Corpus.in_memory(clock=lambda: NOW, embedder=WordEmbedder())
    corpus.add(
        [
            Record(id="a", text="The fee is 12 EUR"),
            Record(id="b", text="Fee of last year"),
            Record(id="c", text="Pump"),
        ]
    )
    return corpus


def seen(result: Result) -> tuple[object, ...]:
    return result.hits, result.text, result.drops


def test_sync_and_async_give_the_same_inside_a_running_loop(corpus: Corpus) -> None:  # IN-01
    corpus.add([Record(id="a", text="The fee is 12 EUR"), Record(id="b", text="Pump manual")])

    async def main() -> None:
        direct = corpus.retrieve("fee", tokens=40, top=2)
        awaited = await corpus.aretrieve("fee", tokens=40, top=2)
        assert seen(direct) == seen(awaited)
        assert [hit.id for hit in awaited.hits] == ["a", "b"]
        assert seen(await corpus.arun(PIPELINE, "fee")) == seen(corpus.run(PIPELINE, "fee"))

    asyncio.run(main())


def test_one_loop_after_another_may_use_the_same_corpus(memory: Corpus) -> None:  # IN-01
    first = asyncio.run(memory.aretrieve("fee"))
    memory.add([Record(id="d", text="fee fee fee")])
    second = asyncio.run(memory.aretrieve("fee"))
    assert {hit.id for hit in second.hits} - {hit.id for hit in first.hits} == {"d"}


def test_many_questions_at_once_are_answered_each_for_itself(memory: Corpus) -> None:
    async def main() -> list[Result]:
        return await asyncio.gather(*(memory.aretrieve(word) for word in ["fee", "pump", "year"] * 5))

    results = asyncio.run(main())
    assert [result.hits[0].id for result in results[:3]] == [
        memory.retrieve(word).hits[0].id for word in ("fee", "pump", "year")
    ]
    assert [seen(result) for result in results[3:6]] == [seen(result) for result in results[:3]]


def test_a_thread_without_a_loop_may_ask(memory: Corpus) -> None:  # IN-01
    async def main() -> Result:
        return await asyncio.to_thread(memory.retrieve, "fee")

    assert seen(asyncio.run(main())) == seen(memory.retrieve("fee"))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(memory.retrieve, ["fee"] * 8))
    assert all(seen(result) == seen(memory.retrieve("fee")) for result in results)


def test_the_loop_goes_on_while_a_question_is_answered(
    memory: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> list[str]:
        loop, asked, told = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        order: list[str] = []
        embed = WordEmbedder.embed_query

        def held(self: WordEmbedder, text: str) -> list[float]:
            loop.call_soon_threadsafe(asked.set)
            asyncio.run_coroutine_threadsafe(told.wait(), loop).result(10)
            return embed(self, text)

        monkeypatch.setattr(WordEmbedder, "embed_query", held)
        question = asyncio.create_task(memory.aretrieve("fee"))
        await asked.wait()
        order.append("the loop")
        told.set()
        await question
        order.append("the answer")
        return order

    assert asyncio.run(main()) == ["the loop", "the answer"]


def test_the_policy_holds_in_a_coroutine_too(memory: Corpus) -> None:
    memory.add([Record(id="a", text="The fee is 99 EUR", tenant="beta")])

    async def main() -> Result:
        with pytest.raises(PrincipalRequired):
            await memory.aretrieve("fee")
        with pytest.raises(PrincipalRequired):
            await memory.arun(PIPELINE, "fee")
        return await memory.aretrieve("fee", principal=Principal("beta"))

    assert asyncio.run(main()).text == "[1] The fee is 99 EUR"


def test_errors_come_through_as_they_are(memory: Corpus) -> None:
    with pytest.raises(ArgumentError, match=r"^top="):
        asyncio.run(memory.aretrieve("fee", top=0))
    with pytest.raises(TypeError):
        asyncio.run(memory.aretrieve("fee", tenant="default"))


def test_a_cancelled_question_leaves_the_corpus_as_it_was(memory: Corpus) -> None:
    async def main() -> None:
        question = asyncio.create_task(memory.aretrieve("fee"))
        await asyncio.sleep(0)
        question.cancel()
        with pytest.raises(asyncio.CancelledError):
            await question

    before = seen(memory.retrieve("fee"))
    asyncio.run(main())
    assert seen(memory.retrieve("fee")) == before


def test_two_threads_embed_two_questions_at_once() -> None:
    meeting = threading.Barrier(2, timeout=20)

    class Waiting(WordEmbedder):
        def embed_query(self, text: str) -> list[float]:
            meeting.wait()
            return super().embed_query(text)

    corpus = Corpus.in_memory(embedder=Waiting(), clock=lambda: NOW)
    corpus.add([Record(id="r1", text="fee")])
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(corpus.retrieve, ["fee", "annual fee"]))
    assert [[hit.id for hit in result.hits] for result in found] == [["r1"], ["r1"]]
