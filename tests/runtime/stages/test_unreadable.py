"""A file of the pipeline's own that cannot be decoded any more: it is named, and what is said to do helps."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagster_operators.errors import LostFileError, StorageError
from dagster_operators.runtime.stages.unreadable import undecodable
from dagster_operators.storage.root import Root
from dagster_operators.transactions import coordinator
from tests.end_to_end.landing import Landing, refused, rows_of
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")


def cut(content: bytes) -> bytes:
    return content[:-10]


def overwritten(content: bytes) -> bytes:
    """As long as before."""
    return bytes(len(content))


def spoilt_within(content: bytes) -> bytes:
    """With a footer that can be read."""
    half = len(content) // 2
    return content[:4] + bytes(half) + content[4 + half :]


@pytest.mark.parametrize(
    ("table", "change", "match", "known"),
    [
        ("tables/totals", cut, "bytes instead of", True),
        ("state/per_key.partials", overwritten, "cannot be decoded", False),
        ("state/per_key.partials", spoilt_within, "cannot be decoded", False),
        ("state/per_key.partials", spoilt_within, "has other content than was written", True),
    ],
)
def test_the_file_is_named_and_the_way_out_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, change: Callable[[bytes], bytes], match: str, *, known: bool
) -> None:
    """With digests of the files, and without any, as in roots of earlier versions."""
    if not known:
        monkeypatch.setattr(coordinator, "with_digests", lambda _, manifest: manifest)
    landing = Landing(tmp_path, SAIL)
    landing.arrive("a,1,2024-01-01T00:00:00Z")
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    landing.arrive("a,2,2024-01-01T00:05:00Z")
    (file,) = (landing.root / table).glob("e1-*/*/*.parquet")
    file.write_bytes(change(file.read_bytes()))
    with refused(pipeline, LostFileError, match, table=table, file=str(file.relative_to(landing.root))):
        pipeline.run_epoch()
    pipeline.repair_ledger(last_epoch=0)
    again = landing.pipeline()
    again.run_until_caught_up()
    assert rows_of(again, "totals") == Counter({("a", 2, 3): 1})


def test_what_a_store_does_not_give_is_not_undecodable(s3):
    root = Root(s3.bucket(), s3.options())
    content = io.BytesIO()
    pq.write_table(pa.table({"v": [1]}), content)
    root.write("tables/t/whole", content.getvalue())
    root.write("tables/t/damaged", b"PAR1")
    files = {"tables/t/whole": len(content.getvalue()), "tables/t/damaged": 4}
    s3.behave(refuse="GET .*/whole")
    with pytest.raises(StorageError, match="a file cannot be read"):
        undecodable(root, files)
    s3.behave()
    assert list(undecodable(root, files)) == ["tables/t/damaged"]
