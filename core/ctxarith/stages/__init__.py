"""The steps of a retrieval, one file each, in the order in which they run.

compose    a query for calls where no one has spoken yet
retrieve   the permitted rows, scored by meaning and by words
supersede  retired records leave, their successors take their places
fuse       several rankings become one
rerank     the first of an order are read together with the question
rank       relevance, recency and density; the cut by number
threshold  the cut by one source's score
assemble   evidence becomes a text under a token budget (layout: where each piece stands)

Between them flow candidates held as columns (pool), made from the rankings in recalled.
"""
