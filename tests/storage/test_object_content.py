"""Files on an object store are known by their ETags: one that is written anew is noticed, also within the second of its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dagster_operators import FileSource
from dagster_operators.errors import BadInputError, MissingInputError, StorageError
from dagster_operators.storage import object_content
from dagster_operators.storage.access import Access
from dagster_operators.storage.input_content import other_content, require_unchanged, with_content
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.storage.object_store import UNMARKED, ObjectAbout, ObjectStore

KEYS = Access.of({"region": "eu-central-1", "access_key_id": "AKEY", "secret_access_key": "hidden"})
PLACE = FileLocation("s3://lake/in", KEYS, is_folder=True)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> dict[str, ObjectAbout]:
    """What a store says of its objects."""
    there: dict[str, ObjectAbout] = {}

    def below(folder: str) -> Mapping[str, ObjectAbout]:
        return {key: about for key, about in there.items() if key.startswith(f"{folder}/")}

    monkeypatch.setattr(object_content, "_store", lambda *_: SimpleNamespace(about=there.get, below=below))
    return there


def put(objects: dict[str, ObjectAbout], count: int) -> list[SourceFile]:
    for number in range(count):
        objects[f"in/{number}.csv"] = ObjectAbout(3, 5.0, 2 * number + 3)
    return [SourceFile(5_000_000, f"{number}.csv", 3) for number in range(count)]


@pytest.mark.parametrize("count", [1, 3, 40])  # one question, several, a list
def test_an_object_written_anew_is_refused(objects: dict[str, ObjectAbout], count: int) -> None:
    files = with_content(PLACE, put(objects, count))
    require_unchanged(PLACE, files)
    assert other_content(PLACE, files) == []
    again = [SourceFile.from_json(file.to_json()) for file in files]
    objects["in/0.csv"] = ObjectAbout(3, 5.0, 999)
    with pytest.raises(BadInputError, match="written anew after it was taken up") as caught:
        require_unchanged(PLACE, again)
    assert caught.value.where["file"] == "lake/in/0.csv"
    assert 'reset(source, 0, tables="restart")' in caught.value.remedy
    assert other_content(PLACE, again) == ["lake/in/0.csv"]


def test_the_same_content_with_another_time_is_the_same(objects: dict[str, ObjectAbout]) -> None:
    files = with_content(PLACE, put(objects, 1))
    objects["in/0.csv"] = replace(objects["in/0.csv"], modified=99.0)
    require_unchanged(PLACE, files)


def test_what_is_gone_or_has_another_size_is_said_as_before(objects: dict[str, ObjectAbout]) -> None:
    files = with_content(PLACE, put(objects, 2))
    objects["in/1.csv"] = ObjectAbout(4, 5.0, 999)
    with pytest.raises(BadInputError, match="size 3 -> 4"):
        require_unchanged(PLACE, files)
    del objects["in/0.csv"]
    with pytest.raises(MissingInputError, match="vanished"):
        require_unchanged(PLACE, files)
    assert other_content(PLACE, files[:1]) == []


def test_no_mark_is_none(objects: dict[str, ObjectAbout], monkeypatch: pytest.MonkeyPatch) -> None:
    files = put(objects, 1)
    objects["in/0.csv"] = ObjectAbout(3, 5.0, UNMARKED)
    assert [file.digest for file in with_content(PLACE, files)] == [""]
    objects["in/0.csv"] = ObjectAbout(4, 6.0, 7)  # written anew since it was listed
    assert [file.digest for file in with_content(PLACE, files)] == [""]

    def without_package(*_: object) -> None:
        raise StorageError("an object store needs the package obstore", remedy="pip install it")

    monkeypatch.setattr(object_content, "_store", without_package)
    assert with_content(PLACE, files) == files
    for other in ("hdfs://lake/in", "s3://key@lake/in"):
        assert with_content(FileLocation(other, KEYS), files) == files


def test_a_store_that_cannot_be_asked_is_an_error(objects: dict[str, ObjectAbout], monkeypatch: pytest.MonkeyPatch) -> None:
    files = with_content(PLACE, put(objects, 1))

    def refused(_: str) -> None:
        raise PermissionError("denied")

    monkeypatch.setattr(object_content, "_store", lambda *_: SimpleNamespace(about=refused))
    with pytest.raises(MissingInputError, match="denied"):
        require_unchanged(PLACE, files)


def test_of_a_server(s3) -> None:
    bucket, options = s3.bucket(), s3.options()
    source = FileSource(f"{bucket}/in", format="csv", schema="v long", storage_options=options)
    store = ObjectStore(bucket, source._location.access)
    store.put("in/a b%20c.csv", b"v\n41\n")
    items = source.with_content(source.choose(None, lambda: iter(())).slice.items)
    s3.requests()
    source.verify_again(items, "")
    assert len(s3.requests()) == 1
    store.put("in/a b%20c.csv", b"v\n42\n")
    items = [[path, size, source._location.find()[0].modified, digest, 0] for path, size, _, digest, _ in items]  # one second
    with pytest.raises(BadInputError, match="written anew"):
        source.verify_again(items, "")
    assert source.other_content(items) == [f"{bucket.removeprefix('s3://')}/in/a b%20c.csv"]
