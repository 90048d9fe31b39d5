"""Every benchmark, one after the other: `make bench`."""

from __future__ import annotations

import langchain_peers
import llamaindex_peers
import memory
import ranking
import supersession


def main() -> None:
    """Run them on the sets that lie beside the repository."""
    supersession.main()
    ranking.main()
    memory.main()
    langchain_peers.main([])
    llamaindex_peers.main(["--reranked", "0"])  # the other table trains a model first


if __name__ == "__main__":
    main()
