# SPDX-License-Identifier: MIT
"""What a plan needs of CUDA's driver and of HIP, through ctypes: memory, code, launches."""

import ctypes
from ctypes import byref, c_char, c_int, c_size_t, c_uint, c_uint64, c_void_p


class Library:
    """A library whose functions return 0 when they succeed."""

    def __init__(self, path):
        self.functions = ctypes.CDLL(path)

    def call(self, name, *arguments):
        code = getattr(self.functions, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name}: error {code}")


class LaunchAttribute(ctypes.Structure):  # CUlaunchAttribute, the value as a cluster
    _fields_ = [("id", c_int), ("pad", c_char * 4), ("cluster", c_uint * 3), ("rest", c_char * 52)]


class LaunchConfig(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", c_uint),
    ]


class Cuda:
    """One GPU, and its default stream."""

    CLUSTER_DIMENSION = 4  # CUlaunchAttributeID
    MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14  # CUfunction_attribute

    def __init__(self, path="libcuda.so.1", index=0):
        self.library = Library(path)
        self.device, context = c_int(), c_void_p()
        self.library.call("cuInit", 0)
        self.library.call("cuDeviceGet", byref(self.device), index)
        self.library.call("cuDevicePrimaryCtxRetain", byref(context), self.device)
        self.library.call("cuCtxPushCurrent_v2", context)

    def allocate(self, count):
        address = c_void_p()
        self.library.call("cuMemAlloc_v2", byref(address), c_size_t(count))
        return address.value

    def free(self, address):
        self.library.call("cuMemFree_v2", c_void_p(address))

    def clear(self, address, count):
        self.library.call("cuMemsetD8Async", c_void_p(address), 0, c_size_t(count), None)

    def write(self, address, data):
        self.library.call("cuMemcpyHtoD_v2", c_void_p(address), data, c_size_t(len(data)))

    def read(self, address, count):
        data = ctypes.create_string_buffer(count)
        self.library.call("cuMemcpyDtoH_v2", data, c_void_p(address), c_size_t(count))
        return data.raw

    def load(self, code, symbol, shared_bytes, cluster):
        library, kernel, function = c_void_p(), c_void_p(), c_void_p()
        self.library.call("cuLibraryLoadData", byref(library), code, None, None, 0, None, None, 0)
        self.library.call("cuLibraryGetKernel", byref(kernel), library, symbol.encode())
        if shared_bytes > 48 * 1024:
            self.allow(self.MAX_DYNAMIC_SHARED, shared_bytes, kernel)
        if cluster != [1, 1, 1]:
            self.allow(self.NON_PORTABLE_CLUSTER, 1, kernel)
        self.library.call("cuKernelGetFunction", byref(function), kernel)
        return function

    def allow(self, attribute, value, kernel):
        self.library.call("cuKernelSetAttribute", attribute, value, kernel, self.device)

    def launch(self, function, stage, arguments):
        grid, block = (c_uint * 3)(*stage["grid"]), (c_uint * 3)(*stage["block"])
        config = LaunchConfig(grid, block, stage["dynamic_shared_bytes"])
        attribute = LaunchAttribute(self.CLUSTER_DIMENSION, b"", (c_uint * 3)(*stage["cluster"]))
        if stage["cluster"] != [1, 1, 1]:
            config.attributes, config.attribute_count = ctypes.pointer(attribute), 1
        data = ctypes.create_string_buffer(arguments, len(arguments))
        parameters = (c_void_p * 1)(ctypes.addressof(data))
        self.library.call("cuLaunchKernelEx", byref(config), function, parameters, None)

    def encode_tensor_map(self, tensor_map, address):
        """The driver writes to a multiple of 64 bytes."""
        rank, driver = tensor_map["rank"], tensor_map["driver"]
        room = ctypes.create_string_buffer(128 + 64)
        start = -ctypes.addressof(room) % 64
        self.library.call(
            "cuTensorMapEncodeTiled",
            c_void_p(ctypes.addressof(room) + start),
            driver["data_type"],
            rank,
            c_void_p(address),
            (c_uint64 * rank)(*tensor_map["dims"]),
            (c_uint64 * max(rank - 1, 1))(*tensor_map["strides_bytes"]),
            (c_uint * rank)(*tensor_map["box"]),
            (c_uint * rank)(*tensor_map["element_strides"]),
            driver["interleave"],
            driver["swizzle"],
            driver["l2_promotion"],
            driver["oob_fill"],
        )
        return room.raw[start : start + 128]

    def wait(self):
        self.library.call("cuCtxSynchronize")


class Hip:
    """One GPU, and its default stream."""

    POINTER, SIZE, END = 1, 2, 3  # HIP_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, HIP_LAUNCH_PARAM_END

    def __init__(self, path="libamdhip64.so", index=0):
        self.library = Library(path)
        self.library.call("hipInit", 0)
        self.library.call("hipSetDevice", index)

    def allocate(self, count):
        address = c_void_p()
        self.library.call("hipMalloc", byref(address), c_size_t(count))
        return address.value

    def free(self, address):
        self.library.call("hipFree", c_void_p(address))

    def clear(self, address, count):
        self.library.call("hipMemsetD8Async", c_void_p(address), 0, c_size_t(count), None)

    def write(self, address, data):
        self.library.call("hipMemcpyHtoD", c_void_p(address), data, c_size_t(len(data)))

    def read(self, address, count):
        data = ctypes.create_string_buffer(count)
        self.library.call("hipMemcpyDtoH", data, c_void_p(address), c_size_t(count))
        return data.raw

    def load(self, code, symbol, shared_bytes, cluster):
        del shared_bytes, cluster  # nothing has to be allowed
        module, function = c_void_p(), c_void_p()
        self.library.call("hipModuleLoadData", byref(module), code)
        self.library.call("hipModuleGetFunction", byref(function), module, symbol.encode())
        return function

    def launch(self, function, stage, arguments):
        data = ctypes.create_string_buffer(arguments, len(arguments))
        size = c_size_t(len(arguments))
        extra = (c_void_p * 5)(self.POINTER, ctypes.addressof(data), self.SIZE, ctypes.addressof(size), self.END)
        shape = [c_uint(value) for value in [*stage["grid"], *stage["block"], stage["dynamic_shared_bytes"]]]
        self.library.call("hipModuleLaunchKernel", function, *shape, None, None, extra)

    def encode_tensor_map(self, tensor_map, address):
        raise RuntimeError("AMD GPUs have no tensor maps")

    def wait(self):
        self.library.call("hipDeviceSynchronize")
