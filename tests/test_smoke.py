from ctxarith import Corpus, Record


def test_what_was_added_is_found(corpus: Corpus) -> None:
    corpus.add([Record(id="r1", text="The fee is 12 EUR"), Record(id="r2", text="Pump manual")])
    assert [hit.id for hit in corpus.retrieve("fee", top=1).hits] == ["r1"]
