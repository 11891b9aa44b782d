#!/usr/bin/env python3
"""Cuts the data files of the demos out of Fashion-MNIST (Debian package dataset-fashion-mnist).

Calibration images come from the training split only, so no test image influences a scale.
"""

import argparse
import pathlib

import numpy as np

from idx import DEBIAN_DIR, load_split, read_idx, write_idx

CALIBRATION_COUNT = 256
CALIBRATION_SEED = 20170828
TEST_COUNT = 1000


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", default=DEBIAN_DIR, help="folder of the four .gz files")
    parser.add_argument("--out", default=here, type=pathlib.Path)
    args = parser.parse_args()

    train_images, train_labels = load_split(args.source, "train")
    test_images, test_labels = load_split(args.source, "t10k")

    # RandomState, not default_rng: NumPy guarantees that its stream never changes (NEP 19).
    order = np.random.RandomState(CALIBRATION_SEED).permutation(len(train_images))
    chosen = order[:CALIBRATION_COUNT]
    files = {
        "calibration-images-idx3-ubyte": train_images[chosen],
        "test-images-idx3-ubyte": test_images[:TEST_COUNT],
        "test-labels-idx1-ubyte": test_labels[:TEST_COUNT],
    }
    for name, array in files.items():
        write_idx(args.out / name, array)
        if not np.array_equal(read_idx(args.out / name), array):
            raise RuntimeError(f"{name}: what was read back differs from what was written")
        print(name, array.shape)
    print("calibration images per class:", np.bincount(train_labels[chosen], minlength=10))


if __name__ == "__main__":
    main()
