"""Where rows live: the only modules that import a database.

inmemory   the reference: exact and plain, used by tests and throwaway corpora
chroma     the default: one collection in a folder, readable by any other Chroma tool
chroma_*   the same on a server; what both share; predicates as Chroma filters
adopted    a collection that others made, read without embedding it again
foreign    rows of others as records
collection the requests that are made of a Chroma collection
hnsw       the files of Chroma's graph index
flat       records as flat metadata and back
journal    how a write is taken back (SQLite)
lock       one writing process for a folder
contract   the checks that every store must pass, for third parties too
"""
