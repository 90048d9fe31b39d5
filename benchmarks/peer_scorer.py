"""A small cross-encoder for a table in which both sides read with the same model: made here, in a minute.

No package carries a trained one. The body is all-MiniLM-L6-v2, the head is new, and it sees one epoch of the
first of SciFact's training claims (`cross_encoder.py` trains on all of them). It is hardly better than
chance: what it shows is the wiring and the time, not what a good reranker gives.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from cross_encoder import train

from ctxarith import Corpus
from ctxarith.measure.beir import read_set

CLAIMS = 40
LENGTH = 128
SEED = 0
UNDERTRAINED = (
    "The cross-encoder is undertrained, hardly better than chance: MiniLM with a new head, one epoch on\n"
    f"{CLAIMS} of SciFact's training claims. Its rows say what the wiring costs, not what a good one gives."
)


def trained(folder: Path, claims: Path) -> Path:
    """Train it, and leave it in the folder."""
    random.seed(SEED)
    torch.manual_seed(SEED)
    data = read_set(claims, split="train")
    few = replace(data, qrels=dict(islice(data.qrels.items(), CLAIMS)))
    with Corpus.in_memory(searchable=["title"]) as corpus:
        corpus.add(data.documents)
        train(corpus, few, folder, argparse.Namespace(epochs=1, negatives=3, length=LENGTH, seed=SEED))
    return folder
