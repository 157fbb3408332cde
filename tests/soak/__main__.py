"""``python -m tests.soak``: try scenarios of fresh seeds for some time, or the one of a seed again."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.engines import EMBEDDED, SAIL
from tests.soak.scenario import SPARK_OF, drawn, try_seed


def main() -> int:
    """Whether a seed failed, as an exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, help="try this one alone")
    parser.add_argument("--spark", action="store_true", help=f"run the scenario of one seed in {SPARK_OF} on Spark")
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    until, failed, tried = time.monotonic() + given.seconds, 0, 0
    while True:
        seed = random.randrange(10**9) if given.seed is None else given.seed  # noqa: S311 - no secrets
        if given.seed is not None:
            say(str(drawn(seed)))
        begun = time.monotonic()
        engine = EMBEDDED if given.spark and (given.seed is not None or not seed % SPARK_OF) else SAIL
        engine.session()  # functions follow the engine whose session was asked for last
        told = try_seed(seed, engine, shrink=not given.no_shrink)
        tried += 1
        outcome = f"{'failed' if told else 'right'} on {'Sail' if engine is SAIL else 'Spark'}"
        say(f"seed {seed}: {outcome}, {time.monotonic() - begun:.1f} s")
        if told:
            failed += 1
            say(told)
        if given.seed is not None or time.monotonic() > until:
            say(f"{tried} tried, {failed} failed")
            return min(failed, 1)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
