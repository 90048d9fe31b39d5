"""Every benchmark, one after the other: `make bench`."""

from __future__ import annotations

import memory
import ranking
import supersession


def main() -> None:
    """Run them on the sets that lie beside the repository."""
    supersession.main()
    ranking.main()
    memory.main()


if __name__ == "__main__":
    main()
