"""A shared library with an operator, over the C functions that dora's operators export.

The functions and structures are those of dora 0.3.6 and later (``apis/rust/operator/types``, ``apis/c/operator``). Two of
the structures, ``Input`` and ``Output``, have no layout that Rust promises: the library's own helpers are asked whether they see
them as they are declared here, before any event is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from dagster_operators.errors import OperatorFailedError

_DECLARED: Final = """
typedef struct { uint8_t *ptr; size_t len; size_t cap; } Vec_u8;
typedef struct { Vec_u8 *error; } DoraResult;
typedef struct { DoraResult result; void *operator_context; } DoraInitResult;
typedef struct { DoraResult result; uint8_t status; } OnEventResult;
typedef struct { int64_t length; uint64_t others[7]; void (*release)(void *); void *private_data; } Array;
typedef struct { uint64_t others[7]; void (*release)(void *); void *private_data; } Schema;
typedef struct { uint64_t has_data; Array data_array; Vec_u8 id; Vec_u8 telemetry; Schema schema; } Input;
typedef struct { Vec_u8 id; Vec_u8 telemetry; Array data_array; Schema schema; } Output;
typedef struct { Input *input; Vec_u8 input_closed; bool stop; Vec_u8 error; } RawEvent;
typedef struct { void *env; DoraResult (*call)(void *, Output); void (*release)(void *); void (*retain)(void *); } SendOutput;
DoraInitResult dora_init_operator(void);
DoraResult dora_drop_operator(void *);
OnEventResult dora_on_event(RawEvent *, const SendOutput *, void *);
char *dora_read_input_id(const Input *);
void dora_free_input_id(char *);
Vec_u8 dora_read_data(Input *);
void dora_free_data(Vec_u8);
DoraResult dora_send_operator_output(const SendOutput *, const char *, const uint8_t *, size_t);
void *malloc(size_t);
void free(void *);
"""

NEEDED: Final = ("dora_init_operator", "dora_drop_operator", "dora_on_event")
_HELPERS: Final = ("dora_read_input_id", "dora_free_input_id", "dora_read_data", "dora_free_data", "dora_send_operator_output")
_SENT: Final = b"\x01\x02\x03\x04\x05"
_ID: Final = b"layout"

Send = Callable[[str, pa.Array, str], None]
"""Takes what the operator sends: the id of an output, the value, and the message's open telemetry context."""


class NativeLibrary:
    """A library that is loaded, and the operator in it.

    Args:
        path: The library.
        send: Takes what the operator sends.

    Raises:
        OperatorFailedError: It is no such library, or was built with structures of another layout.
    """

    def __init__(self, path: str, send: Send) -> None:
        import cffi

        self._ffi = cffi.FFI()
        self._ffi.cdef(_DECLARED)
        self._libc = self._ffi.dlopen(None)
        try:
            self._library = self._ffi.dlopen(path)
        except OSError as error:
            raise OperatorFailedError(
                f"the library cannot be loaded: {error}", remedy="build it for this machine, and link it with dora's operator API"
            ) from None
        self._send = send
        self._failed: BaseException | None = None
        self._output = self._sender(self._on_output)
        self._make_room()
        self._check_symbols()
        self._check_layout()
        begun = self._library.dora_init_operator()
        self._raise(begun.result, "dora_init_operator")
        self._context = begun.operator_context

    def on_event(self, kind: str, name: str, value: pa.Array | None, context: str = "") -> int:
        """Tell the operator of an event; the status that it returned.

        Raises:
            OperatorFailedError: It returned an error.
        """
        if kind == "INPUT":
            return self.on_input(name, value, context)
        raw = self._ffi.new("RawEvent *")
        if kind == "INPUT_CLOSED":
            raw.input_closed = self._name(name)[0]
        raw.stop = kind == "STOP"
        return self._status(self._library.dora_on_event(raw, self._output, self._context))

    def on_input(self, name: str, value: pa.Array | None, context: str = "") -> int:
        """Tell the operator of a message, which has an open telemetry context; the status that it returned.

        Raises:
            OperatorFailedError: It returned an error.
        """
        self._fill(name, value, context)
        found = self._library.dora_on_event(self._raw, self._output, self._context)
        self._release()
        return self._status(found)

    def _status(self, found: Any) -> int:
        self._raise(found.result, "dora_on_event")
        if self._failed is not None:
            raise self._failed
        return int(found.status)

    def close(self) -> None:
        """Let the operator end.

        Raises:
            OperatorFailedError: It returned an error.
        """
        self._raise(self._library.dora_drop_operator(self._context), "dora_drop_operator")

    # --- what the operator sends -------------------------------------------------------------------------------------

    def _sender(self, on_output: Callable[[Any], Any]) -> Any:
        """A ``SendOutput`` that calls a function with each ``Output``; what it consists of lives as long as the library."""
        made = self._ffi.new("SendOutput *")
        call = self._ffi.callback("DoraResult(void *, Output)", lambda _, output: on_output(output))
        nothing = self._ffi.callback("void(void *)", lambda _: None)
        made.call, made.release, made.retain = call, nothing, nothing
        self._kept = (*getattr(self, "_kept", ()), call, nothing)
        return made

    def _on_output(self, output: Any) -> Any:
        try:
            name, value, context = self._text(output.id), self._imported(output), self._text(output.telemetry)
            self._free_text(output.id)
            self._free_text(output.telemetry)
            self._send(name, value, context)
        except Exception as error:  # noqa: BLE001 - it must not get into the library, and is raised when that returns
            self._failed = error
        return self._fine[0]

    def _imported(self, output: Any) -> pa.Array:
        self._sent[0] = output
        return pa.Array._import_from_c(*self._sent_places)  # noqa: SLF001 - what pyarrow has for this

    # --- what the operator gets --------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """The structures that every message is put in: making them, and looking for their fields, takes longer than the rest."""
        ffi = self._ffi
        self._own, self._sent, self._fine = ffi.new("Input *"), ffi.new("Output *"), ffi.new("DoraResult *")
        self._raw = ffi.new("RawEvent *", {"input": self._own})
        self._own_places = [_address(ffi, self._own) + ffi.offsetof("Input", field) for field in ("data_array", "schema")]
        self._array, self._schema = self._own.data_array, self._own.schema
        self._array_place, self._schema_place = (ffi.cast("void *", place) for place in self._own_places)
        self._sent_places = [_address(ffi, self._sent) + ffi.offsetof("Output", field) for field in ("data_array", "schema")]
        self._names: dict[str, tuple[Any, Any]] = {}
        self._empty = ffi.cast("uint8_t *", 1)  # Rust's empty text

    def _fill(self, name: str, value: pa.Array | None, context: str = "") -> None:
        own = self._own
        own.has_data, own.id = 1, self._name(name)[0]
        if context:
            self._context_bytes = self._ffi.from_buffer("uint8_t[]", context.encode())  # it lives as long as the event
            own.telemetry.ptr, own.telemetry.len = self._context_bytes, len(self._context_bytes)
            own.telemetry.cap = own.telemetry.len
        elif own.telemetry.len or own.telemetry.ptr == self._ffi.NULL:
            own.telemetry.ptr, own.telemetry.len, own.telemetry.cap = self._empty, 0, 0
        (pa.nulls(0) if value is None else value)._export_to_c(*self._own_places)  # noqa: SLF001 - as above

    def _release(self) -> None:
        """Give back what the operator did not take."""
        own = self._own
        if own.has_data and self._array.release:
            self._array.release(self._array_place)
        if self._schema.release:
            self._schema.release(self._schema_place)

    # --- texts and errors --------------------------------------------------------------------------------------------

    def _name(self, text: str) -> Any:
        """A text as the library is given it; it lives as long as this does."""
        if text not in self._names:
            data = self._ffi.from_buffer("uint8_t[]", text.encode())
            self._names[text] = (self._ffi.new("Vec_u8 *", (data, len(data), len(data))), data)
        return self._names[text][0]

    def _text(self, vec: Any) -> str:
        return bytes(self._ffi.buffer(vec.ptr, vec.len)).decode(errors="replace") if vec.len else ""

    def _free_text(self, vec: Any) -> None:
        if vec.cap:
            self._libc.free(vec.ptr)

    def _raise(self, result: Any, what: str) -> None:
        if result.error == self._ffi.NULL:
            return
        text = self._text(result.error[0])
        self._free_text(result.error[0])
        self._libc.free(result.error)
        raise OperatorFailedError(f"{what} returned the error {text!r}", remedy="correct the operator or its input")

    # --- is it what it should be -------------------------------------------------------------------------------------

    def _check_symbols(self) -> None:
        for name in (*NEEDED, *_HELPERS):
            try:
                getattr(self._library, name)
            except AttributeError:
                told = "is no operator of dora" if name in NEEDED else "was not linked with dora's operator API"
                raise OperatorFailedError(
                    f"the library {told}: it has no function {name}", remedy="link libdora_operator_api_c.a, and keep its symbols"
                ) from None

    def _check_layout(self) -> None:
        """See that the library's helpers see inputs and outputs as they are declared here.

        Raises:
            OperatorFailedError: They do not.
        """
        seen: list[Any] = []

        def output(given: Any) -> Any:
            fits = given.id.len == len(_ID) and given.schema.release and given.data_array.length == len(_SENT)
            if fits:
                seen.append((self._text(given.id), bytes(self._imported(given).to_pylist())))
            return self._ffi.new("DoraResult *")[0]

        sent = self._library.dora_send_operator_output(self._sender(output), _ID, _SENT, len(_SENT))
        self._fill(_ID.decode(), pa.array(list(_SENT), pa.uint8()))
        own = self._own
        name = self._library.dora_read_input_id(own)
        told = self._ffi.string(name) if name != self._ffi.NULL else b""
        self._library.dora_free_input_id(name)
        data = self._library.dora_read_data(own)
        read = bytes(self._ffi.buffer(data.ptr, data.len)) if data.ptr != self._ffi.NULL else b""
        self._release()
        if sent.error != self._ffi.NULL or seen != [(_ID.decode(), _SENT)] or (told, read) != (_ID, _SENT):
            raise OperatorFailedError(
                "the library was built with structures of another layout than those of dora 0.3.6 to 1.1",
                remedy="build it with Rust 1.95 or a release near it, and without -Zrandomize-layout",
            )
        self._library.dora_free_data(data)


def _address(ffi: Any, pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))
