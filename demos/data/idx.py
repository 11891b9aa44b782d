"""Reading and writing IDX files, the format of MNIST and Fashion-MNIST.

Layout (http://yann.lecun.com/exdb/mnist/): two zero bytes, one type byte (0x08 = unsigned byte),
one byte with the number of dimensions, each dimension as a big-endian uint32, then the values in
row-major order.
"""

import gzip
import pathlib
import struct

import numpy as np

DEBIAN_DIR = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read_idx(path):
    """Returns the uint8 array stored in an IDX file; a name ending in .gz is decompressed."""
    path = pathlib.Path(path)
    raw = gzip.open(path, "rb").read() if path.suffix == ".gz" else path.read_bytes()
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise ValueError(f"{path}: not an IDX file of unsigned bytes (header {raw[:4].hex()})")
    rank = raw[3]
    shape = struct.unpack_from(f">{rank}I", raw, 4)
    offset = 4 + 4 * rank
    count = int(np.prod(shape, dtype=np.int64))
    if len(raw) - offset != count:
        raise ValueError(f"{path}: shape {shape} needs {count} bytes, file has {len(raw) - offset}")
    return np.frombuffer(raw, np.uint8, count, offset).reshape(shape)


def write_idx(path, array):
    """Writes a uint8 array as an uncompressed IDX file."""
    if array.dtype != np.uint8:
        raise TypeError(f"{path}: IDX values must be uint8, not {array.dtype}")
    header = bytes([0, 0, 0x08, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    pathlib.Path(path).write_bytes(header + np.ascontiguousarray(array).tobytes())


def load_split(directory, split):
    """Returns (images [n,28,28], labels [n]) of the split 'train' or 't10k'."""
    directory = pathlib.Path(directory)
    images = read_idx(directory / f"{split}-images-idx3-ubyte.gz")
    labels = read_idx(directory / f"{split}-labels-idx1-ubyte.gz")
    if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
        raise ValueError(f"{directory}: {split} has images {images.shape}, labels {labels.shape}")
    return images, labels
