"""An operator says itself what is kept, or its attributes are that: what was saved is read as it was taken, or refused."""

from __future__ import annotations

import pickle
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events.python_operator import PythonOperator
from dagster_operators.operators.events.saved_attributes import save
from dagster_operators.operators.events.wiring import EventOperator

PLAIN = """
class Operator:
    def __init__(self):
        self.n = 5
    def on_event(self, dora_event, send_output):
        return DoraStatus.CONTINUE
"""
GET = "    def get_state(self):\n        return self.n\n"
SET = "    def set_state(self, value):\n        self.n = value\n"
BOTH = PLAIN + GET + SET
NAMED = PLAIN.replace("self.n", "self.state")

SLOTS = """
class Base:
    __slots__ = ("n", "__own", "late")
    def __init__(self):
        self.n, self.__own = 5, 6
class Operator(Base):
    __slots__ = ("more", "dataflow_descriptor")
    def on_event(self, dora_event, send_output):
        return DoraStatus.CONTINUE
"""


def opened(text, saved=None, state="plain"):
    made = PythonOperator(EventOperator("log", "op", alone=True, file="log.py", state=state), {"log.py": text}, "{}", {})
    made.open(saved)
    made.close()
    return made


def value(text, saved, state="plain"):
    instance = opened(text, saved, state)._instance
    return getattr(instance, "n", None), getattr(instance, "state", None)


def changed(text, state="plain"):
    made = opened(text, state=state)
    name = "n" if hasattr(made._instance, "n") else "state"
    setattr(made._instance, name, 7)
    return made.save()


@pytest.mark.parametrize("state", ["plain", "pickle"])
@pytest.mark.parametrize(
    ("before", "after", "told", "way"),
    [
        (PLAIN, BOTH, "saved as its attributes, and now it has", "take get_state() and set_state(value) out again"),
        (NAMED, BOTH, "saved as its attributes, and now it has", "take get_state() and set_state(value) out again"),
        (BOTH, PLAIN, "saved by get_state(), and it no longer has", "give it get_state() and set_state(value) again"),
        (BOTH, NAMED, "saved by get_state(), and it no longer has", "give it get_state() and set_state(value) again"),
    ],
    ids=["added", "added, of one attribute", "taken out", "taken out, with an attribute of that name"],
)  # fmt: skip
def test_what_was_saved_in_the_other_way_is_refused_and_the_ways_out_work(before, after, told, way, state):
    saved = changed(before, state)
    with pytest.raises(OperatorFailedError) as caught:
        opened(after, saved, state)
    assert told in caught.value.problem
    assert caught.value.remedy.startswith(way)
    assert "restart: 1" in caught.value.remedy
    assert 7 in value(before, saved, state)  # as it was
    assert 5 in value(after, None, state)  # what restart does


@pytest.mark.parametrize("write", [save, pickle.dumps], ids=["plain", "pickle"])
def test_what_earlier_versions_saved_is_read(write):
    state = "plain" if write is save else "pickle"
    assert value(PLAIN, write({"n": 7}), state) == (7, None)
    assert value(BOTH, write({"state": 7}), state) == (7, None)
    assert value(NAMED, write({"state": 7}), state) == (None, 7)
    unnamed = PLAIN.replace("self.n = 5", "setattr(self, 'sta' + 'te', 5)")  # which no look at the text finds
    assert value(unnamed, write({"state": 7}), state) == (None, 7)
    with pytest.raises(OperatorFailedError, match=r"saved by get_state\(\)"):
        opened(PLAIN, write({"state": 7}), state)
    with pytest.raises(OperatorFailedError, match="saved as its attributes"):
        opened(BOTH, write({"n": 7}), state)


WITH_BOX = """
class Operator:
    def __init__(self):
        self.box = None
    def on_event(self, dora_event, send_output):
        from tools.boxes import Box
        self.box = self.box or Box()
        return DoraStatus.CONTINUE
"""


def boxed(version, saved=None):
    """What an operator keeps behind one event, and which version of a class its box then is of."""
    helper = f"class Box:\n    version = {version}\n    def __init__(self):\n        self.n = 7\n"
    files = {"ops/log.py": WITH_BOX, "ops/tools/__init__.py": "", "ops/tools/boxes.py": helper, "other.py": "raise ValueError"}
    return worked(files, saved)


def worked(files, saved=None, file="ops/log.py"):
    """The same of an operator with a box."""
    made = PythonOperator(EventOperator("boxing", "op", alone=True, file=file, state="pickle"), files, "{}", {})
    made.open(saved)
    before = made._instance.box and (made._instance.box.version, made._instance.box.n)
    made.on_event({"type": "INPUT", "id": "n"}, lambda *_: None)
    made.close()
    return made.save(), before


@pytest.mark.parametrize("is_new", [True, False], ids=["a new worker", "a living worker"])
def test_a_pickled_class_of_a_module_that_a_function_imports_is_found_as_it_is_now(is_new):
    saved, _ = boxed(1)
    for name in [name for name in sys.modules if is_new and name.startswith("event_operators_boxing_")]:
        del sys.modules[name]
    again, found = boxed(2, saved)
    assert found == (2, 7)
    assert boxed(3, again)[1] == (3, 7)


OWN_BOX = WITH_BOX.replace("        from tools.boxes import Box\n", "") + "class Box:\n    version, n = 1, 7\n"


def test_a_pickled_class_of_a_module_that_is_gone_is_refused_in_a_living_worker_too():
    saved, _ = boxed(1)
    with pytest.raises(OperatorFailedError, match=r"a class of the module tools\.boxes, which is no longer") as caught:
        worked({"ops/log.py": OWN_BOX}, saved)
    assert caught.value.remedy == "put the module back; or restart: 1, or another value than now, to begin anew"
    assert boxed(2, saved)[1] == (2, 7)
    assert worked({"ops/log.py": OWN_BOX})[1] is None  # what restart does


def test_a_class_attribute_of_a_module_that_a_function_imports_does_not_change_without_a_word():
    operator = WITH_BOX.replace("self.box = self.box or Box()", "Box.version += 1")
    parts = {"ops/parts.py": "class Part:\n    def __init__(self):\n        self.n = 1\nimport tools.boxes\n"}
    boxes = "from parts import Part\nclass Box:\n    part, version, n = Part(), 1, 7\n"
    files = {**parts, "ops/tools/__init__.py": "", "ops/tools/boxes.py": boxes}
    with pytest.raises(OperatorFailedError, match=r"the class attribute Box\.version changed"):
        worked({**files, "ops/log.py": operator})
    assert worked({**files, "ops/log.py": WITH_BOX})[1] is None


def test_a_pickled_class_of_a_file_with_a_dot_in_its_name_is_found():
    files = {"ops/log.v2.py": OWN_BOX}
    saved, _ = worked(files, file="ops/log.v2.py")
    assert worked(files, saved, "ops/log.v2.py")[1] == (1, 7)


@pytest.mark.parametrize(("own", "told"), [(GET, "get_state() without set_state"), (SET, "set_state(value) without get_state")])
def test_one_method_without_the_other_is_refused(own, told):
    with pytest.raises(OperatorFailedError) as caught:
        opened(PLAIN + own)
    assert told in caught.value.problem
    assert "write both" in caught.value.remedy


@pytest.mark.parametrize("state", ["plain", "pickle"])
@given(given=st.dictionaries(st.sampled_from(["n", "_Base__own", "late", "more"]), st.integers()), gone=st.sets(st.just("n")))
@settings(max_examples=20, deadline=None)
def test_attributes_in_slots_are_kept(state, given, gone):
    first = opened(SLOTS, state=state)
    for name, one in given.items():
        setattr(first._instance, name, one)
    for name in gone:
        delattr(first._instance, name)
    again = opened(SLOTS, first.save(), state)
    expected = {"n": 5, "_Base__own": 6, "dataflow_descriptor": {}, **given}
    found = {name: getattr(again._instance, name) for name in (*expected, "late") if hasattr(again._instance, name)}
    assert found == {name: one for name, one in expected.items() if name not in gone}
    assert again.save() == first.save()


def test_slots_beside_a_dictionary_are_kept():
    text = SLOTS.replace('    __slots__ = ("more", "dataflow_descriptor")\n', "")
    first = opened(text)
    first._instance.n, first._instance.other = 7, 8
    again = opened(text, first.save())._instance
    assert (again.n, again.other) == (7, 8)


def test_slots_without_a_place_are_refused():
    with pytest.raises(OperatorFailedError, match="__slots__ without 'dataflow_descriptor'") as caught:
        opened(SLOTS.replace(', "dataflow_descriptor"', ""))
    assert caught.value.remedy.startswith("add 'dataflow_descriptor' to its __slots__")
    first = opened(SLOTS)
    first._instance.more = 1
    with pytest.raises(OperatorFailedError, match="'more' was saved, and the operator's __slots__ have no place") as caught:
        opened(SLOTS.replace('"more", ', ""), first.save())
    assert "add 'more' to its __slots__; or restart: 1" in caught.value.remedy
