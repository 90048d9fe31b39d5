"""Measure: how good a ranking is, on judged questions.

beir      evaluation sets as folders: corpus, queries, judgements
metrics   names of measures, the gain convention, and what computes them
evaluate  a run against judgements: means, and each query's values
compare   the difference of two runs, with its interval
advise    retrieval per question, a packet per case, or the corpus preloaded
ablation  the steps of the pipeline one after the other, on one set
"""
