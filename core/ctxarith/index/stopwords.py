"""English words that say nothing about what a text is about.

The stop list of the Snowball project for English (https://snowballstem.org/algorithms/english/stop.txt,
BSD) joined with that of Lucene's StandardAnalyzer. Snowball keeps `us`, `may`, `can` and `must` out of its
list, since they are also a country, a month and nouns; `will` is a stop word through Lucene's.

Why both: Lucene's 33 words leave pronouns and question words in, and a question that is spoken has many.
Joined, BM25 alone gains .024 nDCG@10 on MTRAG's conversations, .026 and .023 on two halves of them taken
apart, and .001 on SciFact's training claims. Neither list was changed to fit these sets.
"""

from __future__ import annotations

_LUCENE = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these
they this to was will with
"""

_SNOWBALL = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers
herself it its itself they them their theirs themselves what which who whom this that these those am is
are was were be been being have has had having do does did doing would should could ought cannot a an the
and but if or because as until while of at by for with about against between into through during before
after above below to from up down in out on off over under again further then once here there when where
why how all any both each few more most other some such no nor not only own same so than too very
"""

STOP_WORDS = frozenset(_LUCENE.split()) | frozenset(_SNOWBALL.split())
