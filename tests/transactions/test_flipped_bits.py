"""Bits flip in logs and records, or an entry is cut short: the damage is named as such, and the repair that it names works.

``FLIPS`` says how many flips are tried at random, each of another bit.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dagster_operators.cli.main import main
from dagster_operators.errors import DamagedLedgerError, DamagedTableError, ForeignWriteError, LedgerError, RestoredTableError
from dagster_operators.storage.log_damage import damage
from dagster_operators.storage.log_sense import refusals
from dagster_operators.storage.root import Root
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.ledger_files import rows_of
from tests.transactions.flow import TABLES, Flow, check_result, read_numbers

FLIPS = int(os.environ.get("FLIPS", "6"))
EPOCHS = 2
TELLS = (DamagedLedgerError, ForeignWriteError, RestoredTableError)
STRINGS = (
    ('\\"long\\"', '\\"lonf\\"'),
    ("minReaderVersion", "minReaderVersioo"),
    ('"path"', '"pati"'),
    ("dataChange", "dataChangd"),
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("base") / "root"
    with Coordinator("numbers", str(root)) as run:
        for _ in range(EPOCHS):
            Flow(run).epoch()
    return root


def copied(base: Path, place: Path) -> Path:
    return Path(shutil.copytree(base, place / "root", copy_function=shutil.copy2))


def content(root: Path) -> list[list[int]]:
    run = Coordinator("numbers", str(root))
    complete = run.versions()
    return [read_numbers(run, table, complete.versions[table]) for table in TABLES]


def goes_on(root: Path, last: int) -> None:
    with Coordinator("numbers", str(root)) as run:
        flow = Flow(run, last=last)
        while flow.epoch() is not None:
            pass


@pytest.mark.parametrize(("was", "now"), STRINGS, ids=["type", "protocol", "path", "change"])
@pytest.mark.parametrize("dataset", ["ledger", "state/sums.totals"])
def test_an_entry_that_is_json_and_no_entry(base: Path, tmp_path: Path, dataset: str, was: str, now: str) -> None:
    root = copied(base, tmp_path)
    entry = next(path for path in sorted((root / dataset / "_delta_log").glob("*.json")) if was in path.read_text())
    before, _, behind = entry.read_text().rpartition(was)
    entry.write_text(f"{before}{now}{behind}")
    number = int(entry.stem)
    assert damage(Root(str(root)), dataset) == f"entry {number} of its log is no entry: something in it was changed"
    kind = DamagedLedgerError if dataset == "ledger" else DamagedTableError
    with pytest.raises(kind, match=f"entry {number} of its log") as caught:
        goes_on(root, EPOCHS + 1)
    run = Coordinator("numbers", str(root))
    if dataset == "ledger":
        assert "pipeline.repair_ledger()" in caught.value.remedy
        run.repair_ledger()
    else:
        assert 'pipeline.repair("state/sums.totals", keep="ours")' in caught.value.remedy
        run.repair(dataset, "ours")
    goes_on(root, EPOCHS + 1)
    assert content(root)[1] == [sum(10 * epoch + step for epoch in range(1, EPOCHS + 2) for step in range(3))]


@pytest.mark.parametrize("draw", range(FLIPS))
def test_any_bit(base: Path, tmp_path: Path, draw: int) -> None:
    root, wanted = copied(base, tmp_path), content(base)
    chance = random.Random(os.urandom(8))  # noqa: S311 - another one each time
    place = "ledger" if draw % 3 == 0 else TABLES[draw % len(TABLES)]
    folder = root / place if place == "ledger" else root / place / "_delta_log"
    path = chance.choice([one for one in sorted(folder.rglob("*")) if one.is_file()])
    byte, bit, written = chance.randrange(path.stat().st_size), chance.randrange(8), bytearray(path.read_bytes())
    written[byte] ^= 1 << bit
    path.write_bytes(written)
    where = f"bit {bit} of byte {byte} of {path.relative_to(root)}"
    try:
        assert content(root) == wanted, where
        goes_on(root, EPOCHS)
    except TELLS:
        run = Coordinator("numbers", str(root))
        run.repair_ledger() if place == "ledger" else run.repair_all("ours")
        goes_on(root, EPOCHS)
        assert content(root) == wanted, where


def test_a_checkpoint_and_what_names_it(base: Path, tmp_path: Path) -> None:
    for hurt in ("checkpoint", "hint"):
        root = copied(base, tmp_path / hurt)
        with Coordinator("numbers", str(root)) as run:
            run._ledger._log._checkpoint(run._ledger.look().version)
        log = root / "ledger/_delta_log"
        path = next(log.glob("*.checkpoint.parquet")) if hurt == "checkpoint" else log / "_last_checkpoint"
        content = bytearray(path.read_bytes())
        content[len(content) // 2 if hurt == "checkpoint" else 2] ^= 1
        path.write_bytes(content)
        with Coordinator("numbers", str(root)) as run:
            Flow(run).epoch()
            check_result(run, EPOCHS + 1)


def test_a_record_with_other_content(base: Path, tmp_path: Path) -> None:
    """A page that was changed and a value that is no record are told; pages of the ledger have checksums."""
    root = copied(base, tmp_path)
    path = next((root / "ledger").glob("r000000000003-*"))
    written = bytearray(path.read_bytes())
    written[len(written) // 3] ^= 4
    path.write_bytes(written)
    with pytest.raises(DamagedLedgerError, match="was changed"):
        rows_of(Root(str(root)), path.name)
    root = copied(base, tmp_path / "again")
    files = {path: pq.read_table(path) for path in sorted((root / "ledger").glob("r*-*"))[3:]}
    path, table = next((path, table) for path, table in files.items() if table["kind"][0].as_py() == "complete")
    told = json.loads(table["body"][0].as_py())
    del told["epoch"]
    body = table.schema.get_field_index("body")
    pq.write_table(table.set_column(body, "body", pa.array([json.dumps(told)])), path)
    with pytest.raises(DamagedLedgerError, match="a file of records is empty, cut short or was changed"):
        Coordinator("numbers", str(root)).history()
    assert Coordinator("numbers", str(root)).repair_ledger().last_epoch == 0
    goes_on(root, EPOCHS)
    assert content(root) == content(base)


@pytest.mark.parametrize("left", ['{"commitInfo":\n', '{"add":{"pati":"r.parquet"}}'], ids=["cut short", "changed"])
def test_commands_settle_a_ledger_whose_last_entry_is_damaged(base: Path, tmp_path: Path, left: str) -> None:
    root = copied(base, tmp_path)
    entry = max((root / "ledger/_delta_log").glob("*.json"))
    entry.write_text(left)
    doctor = CliRunner().invoke(main, ["doctor", str(root)])
    assert doctor.exit_code == 1
    assert f"dagster-operators repair {root} --ledger" in doctor.output
    assert "ok       versions" in doctor.output, "it goes on behind the ledger"
    repaired = CliRunner().invoke(main, ["repair", str(root), "--ledger"])
    assert repaired.exit_code == 0, repaired.output
    goes_on(root, EPOCHS)
    assert content(root) == content(base)
    assert CliRunner().invoke(main, ["doctor", str(root)]).exit_code == 0


def test_the_first_record_is_made_again_by_what_tables_and_manifests_say(base: Path, tmp_path: Path) -> None:
    root = copied(base, tmp_path)
    next((root / "ledger").glob("r000000000001-*")).unlink()
    repaired = CliRunner().invoke(main, ["repair", str(root), "--ledger"])
    assert repaired.exit_code == 0, repaired.output
    goes_on(root, EPOCHS)
    assert content(root) == content(base)
    next((root / "ledger").glob("r000000000001-*")).unlink()
    with pytest.raises(LedgerError, match="the beginning of the ledger is lost"):
        Coordinator("another", str(root)).repair_ledger()


def test_a_panic_of_native_code_is_an_error() -> None:
    class PanicException(BaseException):
        pass

    with pytest.raises(Exception, match="the log cannot be read: no such year"), refusals("ledger", "lake"):
        raise PanicException("no such year")
    with pytest.raises(KeyboardInterrupt), refusals("ledger", "lake"):
        raise KeyboardInterrupt


EARLIER = (
    ('"add"', '"adD"'),
    ("minValues", "mioValues"),
    ('\\"seq\\": ', '\\"seq\\"\\u0000 '),
    ('"path":"r', '"path":"s'),
)
"""What flips in entries of earlier versions, which have no digest."""


@pytest.mark.parametrize(("was", "now"), EARLIER, ids=["action", "bounds", "json", "path"])
def test_entries_without_digests_are_refused_by_their_form_and_repaired(base: Path, tmp_path: Path, was: str, now: str) -> None:
    root = copied(base, tmp_path)
    for path in (root / "ledger/_delta_log").glob("*.json"):
        path.write_text(path.read_text().replace("dagster_operators.digest", "dagster_operators.digesT"))
    entry = root / f"ledger/_delta_log/{5:020d}.json"
    assert was in entry.read_text()
    entry.write_text(entry.read_text().replace(was, now))
    with pytest.raises(DamagedLedgerError):
        Coordinator("numbers", str(root)).history()
    Coordinator("numbers", str(root)).repair_ledger()
    goes_on(root, EPOCHS)
    assert content(root) == content(base)


def test_a_repair_settles_a_log_that_removes_what_nobody_wrote(tmp_path: Path) -> None:
    """A record is there twice: in its own file, which an entry without digest no longer removes, and in the folded one."""
    root = tmp_path / "root"
    with Coordinator("numbers", str(root)) as run:
        while Flow(run, last=4).epoch() is not None:
            pass
    wanted = content(root)
    log = root / "ledger/_delta_log"
    for path in (*log.glob("*.checkpoint.parquet"), *log.glob("_last_checkpoint")):
        path.unlink()
    folding = [path for path in log.glob("*.json") if '"remove"' in path.read_text()]
    text = folding[0].read_text().replace("dagster_operators.digest", "dagster_operators.digesT")
    folding[0].write_text(text.replace('"remove":{"path":"r', '"remove":{"path":"s', 1))
    with pytest.raises(DamagedLedgerError, match="is there twice"):
        Coordinator("numbers", str(root)).history()
    Coordinator("numbers", str(root)).repair_ledger()
    goes_on(root, 4)
    assert content(root) == wanted
