"""What may leave a party, as a type and as bytes.

`Released` marks a value that passed a gate (or came off the wire, where the sender's gate let it out). It is immutable:
it keeps the bytes it was encoded to at the moment of release, and those bytes are what is sent, so nothing done to the
value afterwards can change what leaves. Only the gate and the decoder make one; a test reads the source to hold us to
it. The boundary stops mistakes, not hostile code running inside a party.

`Private` is the opposite: an exact value together with how far it can move when one unit of data is replaced. It is the
only thing a noisy mechanism of the gate accepts, so a sensitivity cannot come from a message.

One tag a value, little-endian, no pickle: decoding never executes, imports or trusts anything, and checks every length
against the bytes that are there before it allocates.

    tag  value                     after the tag
    R    Released                  the value inside
    t n  True, False               nothing
    i    int                       8 bytes, signed
    f    float                     8 bytes, IEEE 754
    s b  str, bytes                length (4), UTF-8 or raw bytes
    (    tuple                     length (4), values
    a    NumPy array               dtype (1), dimensions (1), shape (8 each), C-ordered data
    c    scipy CSC, usually a column   rows, columns, nonzeros (8 each), column ends and row indices bit-packed, values
    p    Packed integers           width (1), dimensions (1), shape (8 each), bit-packed data

The values of a sparse block are kept exactly, in the smallest of three forms: one constant, float32, float64.
Widths of Packed are chosen by the caller from public figures, so that a size tells nothing about the data.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colonnade.errors import InvalidInput, LeakError, WireError
from colonnade.kernels.bits import pack, packed_size, unpack

T = TypeVar("T")
_MARK = object()
DTYPES = tuple(np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"))
_DTYPE_CODE = {dtype: code for code, dtype in enumerate(DTYPES)}
_MAX_DEPTH = 4
_MAX_DIMENSIONS = 8
_MOST_PACKED = 1 << 27  # they unpack to 8 bytes each: 1 GiB
_U32 = struct.Struct("<I")
_I64 = struct.Struct("<q")
_F64 = struct.Struct("<d")
_ARRAY = struct.Struct("<BB")
_SPARSE = struct.Struct("<QQQB")
_SHAPES = tuple(struct.Struct(f"<{dimensions}Q") for dimensions in range(_MAX_DIMENSIONS + 1))
_CONSTANT, _FLOAT32, _FLOAT64 = range(3)


class Released(Generic[T]):
    """A value that passed a gate. Read it with `.value`; nobody can change it."""

    __slots__ = ("_body", "_mark", "_value")
    _body: bytes | None  # None where the value is bytes: nobody can change them
    _mark: object
    _value: T

    def __init__(self, *_: object) -> None:
        raise LeakError("only a gate makes a Released: pass the value through gate.exact or a noisy mechanism")

    @property
    def value(self) -> T:
        return self._value

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise LeakError(f"a released value cannot be changed (tried to set {name!r})")

    __delattr__ = __setattr__  # type: ignore[assignment]  # both only refuse

    def __repr__(self) -> str:
        return f"Released({self._value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Released) and released_body(self) == released_body(other)

    def __hash__(self) -> int:
        return hash(released_body(self))

    def __reduce__(self) -> NoReturn:
        raise LeakError("a Released cannot be pickled or copied; send it in a message")


def make_released(value: T, body: bytes | memoryview) -> Released[T]:
    """For the gate and the decoder only: mark `value`, which encodes to `body`, as released."""
    released: Released[T] = object.__new__(Released)
    object.__setattr__(released, "_value", value)
    object.__setattr__(released, "_body", None if type(value) is bytes else bytes(body))
    object.__setattr__(released, "_mark", _MARK)
    return released


def released_body(released: Released[Any]) -> bytes:
    """The bytes fixed at release; a Released that no gate made is refused."""
    _check_mark(released)
    return encode_value(released._value) if released._body is None else released._body


def _check_mark(released: Released[Any]) -> None:
    if getattr(released, "_mark", None) is not _MARK:
        raise LeakError("this Released was not made by a gate; pass the value through the gate")


@dataclass(frozen=True, slots=True)
class Private(Generic[T]):
    """An exact value that stays, and the most it moves (L2; entrywise for scores) when one unit is replaced."""

    value: T
    sensitivity: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sensitivity) and self.sensitivity > 0):
            raise InvalidInput(
                f"a private value needs a finite, positive sensitivity, got {self.sensitivity}. "
                "Give public bounds (row_norm, feature_bound, label_bound) from which it can be computed."
            )


@dataclass(frozen=True, slots=True)
class Packed:
    """Unsigned integers that are sent at `bits` bits each."""

    values: NDArray[np.uint64]
    bits: int

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 64:
            raise InvalidInput(f"packed integers are 1 to 64 bits wide, got {self.bits}")
        if np.ndim(self.values) > _MAX_DIMENSIONS:
            raise InvalidInput(f"packed integers of {np.ndim(self.values)} dimensions; at most {_MAX_DIMENSIONS}")
        if self.values.size > _MOST_PACKED:
            raise InvalidInput(f"{self.values.size:,} packed integers are too many for one message; send row blocks")
        values = np.ascontiguousarray(self.values, np.uint64)
        if self.bits < 64 and values.size and int(values.max()) >> self.bits:
            raise InvalidInput(f"a value needs more than {self.bits} bits; widen the field or reduce the value")
        object.__setattr__(self, "values", values)


# ------------------------------------------------------------------------------------------------ encoding


def encode_value(value: Any) -> bytes:
    """The bytes of one value."""
    out: list[bytes | memoryview] = []
    append_value(value, out)
    return b"".join(out)


def value_digest(value: Any) -> bytes:
    """The SHA-256 of its bytes, by which two nodes see that they have the same."""
    return hashlib.sha256(encode_value(value)).digest()


def append_value(value: Any, out: list[bytes | memoryview]) -> None:
    """Append the encoding of `value` to `out`, without copying large arrays."""
    kind = type(value)
    if kind is Released:
        out.append(b"R")
        _check_mark(value)
        append_value(value.value, out) if value._body is None else out.append(value._body)
    elif kind is bool or kind is np.bool_:
        out.append(b"t" if value else b"n")
    elif kind is int or isinstance(value, np.integer):
        out.append(b"i" + _int64(int(value)))
    elif kind is float or isinstance(value, np.floating):
        out.append(b"f" + _F64.pack(float(value)))
    elif kind is np.ndarray:
        _append_array(value, out)
    elif kind is str:
        raw = _utf8(value)
        out.append(b"s" + _length(len(raw)) + raw)
    elif kind is bytes:
        out.append(b"b" + _length(len(value)))
        out.append(value)
    elif kind is tuple:
        out.append(b"(" + _length(len(value)))
        for item in value:
            append_value(item, out)
    elif kind is Packed:
        _append_packed(value, out)
    elif sparse.issparse(value):
        _append_sparse(value, out)
    else:
        raise WireError(f"no encoding for a {kind.__name__}; use numbers, text, bytes, tuples, arrays or CSC columns")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise WireError("a text field holds half a character (a lone surrogate) and has no UTF-8 form") from error


def _int64(value: int) -> bytes:
    if not -(2**63) <= value < 2**63:
        raise WireError(f"the integer {value} does not fit in 64 bits")
    return _I64.pack(value)


def _length(n: int) -> bytes:
    if n >= 2**32:
        raise WireError(f"{n:,} items are too many for one field; send row blocks")
    return _U32.pack(n)


def _append_array(array: NDArray[Any], out: list[bytes | memoryview]) -> None:
    code = _DTYPE_CODE.get(array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype)
    if code is None:
        raise WireError(f"no encoding for arrays of {array.dtype}; use one of {', '.join(d.name for d in DTYPES)}")
    if array.ndim > _MAX_DIMENSIONS:
        raise WireError(f"an array of {array.ndim} dimensions; at most {_MAX_DIMENSIONS} are sent")
    plain = np.ascontiguousarray(array, DTYPES[code])
    out.append(b"a" + _ARRAY.pack(code, array.ndim) + _shape(array.shape))
    if plain.size:
        out.append(plain.data.cast("B"))


def _shape(shape: tuple[int, ...]) -> bytes:
    return _SHAPES[len(shape)].pack(*shape)


def _append_packed(packed: Packed, out: list[bytes | memoryview]) -> None:
    out.append(b"p" + _ARRAY.pack(packed.bits, packed.values.ndim) + _shape(packed.values.shape))
    out.append(pack(packed.values.ravel(), packed.bits).tobytes())


def _width(limit: int) -> int:
    """Bits that hold every integer below `limit`."""
    return max(1, (limit - 1).bit_length())


def _append_sparse(matrix: Any, out: list[bytes | memoryview]) -> None:
    csc = sparse.csc_array(matrix)
    if not csc.has_canonical_format:
        csc = csc.copy()
        csc.sum_duplicates()
    rows, columns = csc.shape
    data = csc.data.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = data.astype(np.float32)
    if data.size and (data.view(np.int64) == data.view(np.int64)[0]).all():  # bits: -0.0 is not 0.0
        form = _CONSTANT
        body = _F64.pack(float(data[0]))
    elif np.array_equal(narrow, data):
        form = _FLOAT32
        body = narrow.astype("<f4").tobytes()
    else:
        form = _FLOAT64
        body = data.astype("<f8").tobytes()
    out.append(b"c" + _SPARSE.pack(rows, columns, csc.nnz, form))
    if columns != 1:
        out.append(pack(csc.indptr[1:].astype(np.uint64), _width(csc.nnz + 1)).tobytes())
    out.append(pack(csc.indices.astype(np.uint64), _width(rows)).tobytes())
    out.append(body)


# ------------------------------------------------------------------------------------------------ decoding


def decode_value(body: bytes) -> Any:
    """The value of `body`, all of it."""
    view = memoryview(body)
    value, end = read_value(view, 0)
    if end != len(view):
        raise WireError(f"{len(view) - end:,} bytes left over behind a value")
    return value


def read_value(view: memoryview, at: int, depth: int = 0, released: bool = False) -> tuple[Any, int]:
    """One value of `view` from `at` on, and where it ends."""
    if at >= len(view):
        raise WireError("the message ends where a value should begin")
    tag = chr(view[at])
    at += 1
    if tag == "R":
        if released:
            raise WireError("a released value inside a released value")
        value, end = read_value(view, at, depth + 1, released=True)
        return make_released(value, view[at:end]), end
    if tag in ("t", "n"):
        return tag == "t", at
    if tag == "i":
        return _I64.unpack(_take(view, at, 8))[0], at + 8
    if tag == "f":
        return _F64.unpack(_take(view, at, 8))[0], at + 8
    if tag == "a":
        return _read_array(view, at)
    if tag == "c":
        return _read_sparse(view, at)
    if tag == "p":
        return _read_packed(view, at)
    if tag in ("s", "b", "("):
        count = _U32.unpack(_take(view, at, 4))[0]
        at += 4
        if tag == "(":
            return _read_tuple(view, at, count, depth, released)
        raw = bytes(_take(view, at, count))
        return (raw if tag == "b" else _text(raw)), at + count
    raise WireError(f"unknown tag {tag!r}; the sender speaks another version, or the bytes are damaged")


def _take(view: memoryview, at: int, count: int) -> memoryview:
    if count > len(view) - at:
        raise WireError(f"the message ends {at + count - len(view):,} bytes too early")
    return view[at : at + count]


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise WireError("a text field is not UTF-8") from error


def _read_tuple(view: memoryview, at: int, count: int, depth: int, released: bool) -> tuple[tuple[Any, ...], int]:
    if depth >= _MAX_DEPTH:
        raise WireError(f"values nested more than {_MAX_DEPTH} deep")
    if count > len(view) - at:
        raise WireError("a tuple longer than its message")
    items = []
    for _ in range(count):
        item, at = read_value(view, at, depth + 1, released)
        items.append(item)
    return tuple(items), at


def _read_shape(view: memoryview, at: int, dimensions: int) -> tuple[tuple[int, ...], int, int]:
    if dimensions > _MAX_DIMENSIONS:
        raise WireError(f"an array of {dimensions} dimensions; at most {_MAX_DIMENSIONS} are read")
    shape = _SHAPES[dimensions].unpack(_take(view, at, 8 * dimensions))
    size = math.prod(shape)
    if size == 0 and any(extent > 2**40 for extent in shape):
        raise WireError("an empty array with an absurd shape")
    return shape, size, at + 8 * dimensions


def _read_array(view: memoryview, at: int) -> tuple[NDArray[Any], int]:
    code, dimensions = _ARRAY.unpack(_take(view, at, 2))
    if code >= len(DTYPES):
        raise WireError(f"unknown array type {code}")
    dtype = DTYPES[code]
    shape, size, at = _read_shape(view, at + 2, dimensions)
    raw = _take(view, at, size * dtype.itemsize)
    array = np.frombuffer(raw, dtype).reshape(shape) if size else np.zeros(shape, dtype)
    if dtype.kind == "b" and size and int(np.frombuffer(raw, np.uint8).max()) > 1:
        raise WireError("a truth value other than 0 and 1")
    array.flags.writeable = False
    return array, at + size * dtype.itemsize


def _read_packed(view: memoryview, at: int) -> tuple[Packed, int]:
    bits, dimensions = _ARRAY.unpack(_take(view, at, 2))
    if not 1 <= bits <= 64:
        raise WireError(f"packed integers of {bits} bits")
    shape, size, at = _read_shape(view, at + 2, dimensions)
    if size > _MOST_PACKED:
        raise WireError(f"{size:,} packed integers; over {_MOST_PACKED:,} must come as row blocks")
    values, at = _read_bits(view, at, size, bits)
    values.flags.writeable = False
    return Packed(values.reshape(shape), bits), at


def _read_bits(view: memoryview, at: int, count: int, bits: int) -> tuple[NDArray[np.uint64], int]:
    length = packed_size(count, bits)
    raw = np.frombuffer(_take(view, at, length), np.uint8) if length else np.zeros(0, np.uint8)
    return unpack(raw, count, bits), at + length


def _read_sparse(view: memoryview, at: int) -> tuple[Any, int]:
    rows, columns, nonzeros, form = _SPARSE.unpack(_take(view, at, _SPARSE.size))
    at += _SPARSE.size
    if rows >= 2**62 or columns >= 2**40 or nonzeros > rows * columns or form > _FLOAT64:
        raise WireError("a sparse block with an absurd shape or an unknown form of values")
    ends = np.array([nonzeros], np.int64)
    if columns != 1:
        packed_ends, at = _read_bits(view, at, columns, _width(nonzeros + 1))
        ends = packed_ends.astype(np.int64)
    packed_indices, at = _read_bits(view, at, nonzeros, _width(rows))
    indices = packed_indices.astype(np.int64)
    indptr = np.concatenate([np.zeros(1, np.int64), ends])
    if (np.diff(indptr) < 0).any() or int(indptr[-1]) != nonzeros:
        raise WireError("a sparse block whose column ends do not fit its nonzeros")
    if nonzeros and int(indices.max()) >= rows:
        raise WireError("a sparse block with a row index out of range")
    rising = np.diff(indices) > 0
    rising[indptr[1:-1][(indptr[1:-1] > 0) & (indptr[1:-1] < nonzeros)] - 1] = True
    if not rising.all():
        raise WireError("a sparse block whose row indices are not in order")
    if form == _CONSTANT:
        data = np.full(nonzeros, _F64.unpack(_take(view, at, 8))[0])
        at += 8
    else:
        dtype = np.dtype("<f4" if form == _FLOAT32 else "<f8")
        # A signalling NaN from a peer is a NaN, not a warning.
        with np.errstate(invalid="ignore"):
            data = np.frombuffer(_take(view, at, nonzeros * dtype.itemsize), dtype).astype(np.float64)
        at += nonzeros * dtype.itemsize
    if rows < 2**31 and nonzeros < 2**31:
        indices = indices.astype(np.int32)
        indptr = indptr.astype(np.int32)
    block = sparse.csc_array((data, indices, indptr), shape=(rows, columns))
    for part in (block.data, block.indices, block.indptr):
        part.flags.writeable = False
    return block, at


# ------------------------------------------------------------------------------------------------ counting


def numbers_in(body: bytes, at: int) -> int:
    """How many numbers the values of `body` hold from `at` on; an entry of a sparse block is two."""
    total = 0
    while at < len(body):
        tag = body[at : at + 1]
        at += 1
        if tag in (b"i", b"f"):
            total = total + 1
            at = at + 8
        elif tag in (b"t", b"n"):
            total += 1
        elif tag in (b"s", b"b"):
            at += 4 + _U32.unpack_from(body, at)[0]
        elif tag == b"(":
            at += 4  # its items follow
        elif tag == b"c":
            rows, columns, nonzeros, form = _SPARSE.unpack_from(body, at)
            at += _SPARSE.size + (packed_size(columns, _width(nonzeros + 1)) if columns != 1 else 0)
            at += packed_size(nonzeros, _width(rows)) + (8 if nonzeros else 0, 4 * nonzeros, 8 * nonzeros)[form]
            total += 2 * nonzeros
        elif tag in (b"a", b"p"):
            kind, dimensions = _ARRAY.unpack_from(body, at)
            size = math.prod(_SHAPES[dimensions].unpack_from(body, at + 2))
            at += 2 + 8 * dimensions
            at += size * DTYPES[kind].itemsize if tag == b"a" else packed_size(size, kind)
            total += size
    return total


# ------------------------------------------------------------------------------------------------ releasing


def release(value: Any) -> Released[Any]:
    """For the gate only: a read-only copy of `value`, marked and fixed as bytes."""
    if isinstance(value, Released):
        raise LeakError("this value is released already; put it into the message as it is")
    if type(value) is bytes:
        return make_released(value, b"")
    body = encode_value(value)
    # A number cannot be changed afterwards; anything else is read back, so that nobody holds on to what was released.
    return make_released(value if type(value) in (int, float) else decode_value(body), body)
