# SPDX-License-Identifier: MIT
"""DLPack's exchange table on a type that belongs to no framework: used without a call of __dlpack__, and never for a
subclass that changes __dlpack__. The table is made here with ctypes, from DLPack's own layout."""

import ctypes

import numpy as np
import pytest
import tilewright

READ_ONLY = 1


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("manager", ctypes.c_void_p),
    ("deleter", DELETER),
    ("flags", ctypes.c_uint64),
    ("tensor", Tensor),
]

MANAGED_FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Managed)))
TENSOR_FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from_object", MANAGED_FROM_OBJECT),
        ("object_from_managed", ctypes.c_void_p),
        ("tensor_from_object", TENSOR_FROM_OBJECT),
        ("current_stream", ctypes.c_void_p),
    ]


class Array:
    """A float32 array of nobody's framework."""

    exported = 0  # how often __dlpack__ was called
    managed = deleted = 0

    def __init__(self, array, read_only=False, fails=False):
        self.array, self.read_only, self.fails = array, read_only, fails
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))

    def __dlpack__(self, **options):
        type(self).exported += 1
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def describe(array, to):
    to.data, to.device_type, to.device_id, to.ndim = array.array.ctypes.data, 1, 0, array.array.ndim
    to.code, to.bits, to.lanes = 2, 32, 1
    to.shape = ctypes.cast(array.shape, ctypes.POINTER(ctypes.c_int64))
    to.strides = ctypes.cast(array.strides, ctypes.POINTER(ctypes.c_int64))
    to.byte_offset = 0


@TENSOR_FROM_OBJECT
def tensor_from_object(array, to):
    if array.fails:
        return -1
    describe(array, to.contents)
    return 0


@DELETER
def delete(managed):
    Array.deleted += 1


@MANAGED_FROM_OBJECT
def managed_from_object(array, to):
    array.kept = Managed(1, 0, None, delete, READ_ONLY if array.read_only else 0)
    describe(array, array.kept.tensor)
    Array.managed += 1
    to[0] = ctypes.pointer(array.kept)
    return 0


def capsule(table):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(table), b"dlpack_exchange_api", None)


TABLE = Table(1, 3, None, None, managed_from_object, None, tensor_from_object, None)
NEWER = Table(2, 0, ctypes.addressof(TABLE), None, managed_from_object, None, tensor_from_object, None)
Array.__dlpack_c_exchange_api__ = capsule(TABLE)

A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(5, 4)


def test_inputs_and_outputs_come_through_the_table_without_a_python_call():
    out = np.zeros((3, 5), np.float32)
    Array.exported = Array.managed = Array.deleted = 0
    wrapped = Array(out)
    assert tilewright.gemm(Array(A), Array(B.T), out=wrapped) is wrapped
    np.testing.assert_array_equal(out, A @ B.T)
    assert Array.exported == 0
    assert (Array.managed, Array.deleted) == (1, 1), "what was asked whether it may be written is given back"


def test_a_read_only_output_is_refused_and_given_back():
    out = np.zeros((3, 5), np.float32)
    Array.managed = Array.deleted = 0
    with pytest.raises(tilewright.InvalidArgument, match="'out' is read-only"):
        tilewright.gemm(A, B.T, out=Array(out, read_only=True))
    assert (Array.managed, Array.deleted) == (1, 1)
    assert not out.any()
    out[:] = 1
    np.testing.assert_array_equal(tilewright.gemm(A, Array(B.T, read_only=True)), A @ B.T)


def test_a_table_that_fails_without_saying_why_is_an_error_and_no_abort():
    with pytest.raises(tilewright.InvalidArgument, match=r"'a' \(Array\) cannot be exported through DLPack"):
        tilewright.gemm(Array(A, fails=True), B.T, out=np.zeros((3, 5), np.float32))


def test_a_table_of_an_older_version_behind_a_newer_one_is_found():
    class Newer(Array):
        __dlpack_c_exchange_api__ = capsule(NEWER)

    Newer.exported = 0
    np.testing.assert_array_equal(tilewright.gemm(A, Newer(B.T)), A @ B.T)
    assert Newer.exported == 0


def test_a_subclass_that_changes_dlpack_is_asked_through_it():
    class Doubled(Array):
        def __dlpack__(self, **options):
            type(self).exported += 1
            self.doubled = self.array * 2
            return self.doubled.__dlpack__()

    class Same(Array):
        pass

    Doubled.exported = Same.exported = 0
    np.testing.assert_array_equal(tilewright.gemm(A, Doubled(B.T)), A @ B.T * 2)
    np.testing.assert_array_equal(tilewright.gemm(A, Same(B.T)), A @ B.T)
    assert (Doubled.exported, Same.exported) == (1, 0)
