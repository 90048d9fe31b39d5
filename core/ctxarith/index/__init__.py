"""In-process search over the same records as the store: filter first, exact after.

columns    a predicate becomes a mask over rows
analysis   text becomes terms
dense      exact cosine over the permitted rows
lexical    BM25 over the permitted rows, with their own statistics
slots      what rows assert, which ids have versions, who names whom
retirement who is retired, by whom and why, for one caller and moment
graph      loops of records that replace each other
snapshot   one immutable state of all of these; a query holds one from beginning to end
"""
