"""Where rows live: the only modules that import a database.

inmemory   the reference: exact and plain, used by tests and throwaway corpora
chroma     the default: one collection in a folder, readable by any other Chroma tool
hnsw       the files of Chroma's graph index
mirror     the rows of a Chroma collection, for any number of readers
flat       records as flat metadata and back
journal    how a write is taken back (SQLite)
lock       one writing process for a folder
contract   the checks that every store must pass, for third parties too
"""
