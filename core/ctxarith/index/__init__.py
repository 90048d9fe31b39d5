"""In-process search over the same records as the store: filter first, exact after.

columns    a predicate becomes a mask over rows
analysis   text becomes terms
dense      exact cosine over the permitted rows
lexical    BM25 over the permitted rows, with their own statistics
slots      who retires whom, decided over all permitted rows
snapshot   one immutable state of all of these; a query holds one from beginning to end
"""
