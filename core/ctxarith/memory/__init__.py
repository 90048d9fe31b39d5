"""A thread that never outgrows its budget: recent turns word for word, the rest as a structured summary.

`rolling` is the handle; `window` puts a window together, `digest` merges and evicts, `extract` and
`statements` read sentences by rule, `summarising` and `worker` do it behind, `recall` searches what was said.
"""
