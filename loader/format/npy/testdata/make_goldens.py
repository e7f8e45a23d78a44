#!/usr/bin/env python3
"""Writes the .npy files of package npy's tests; needs NumPy (made with 2.4.6).

Each array counts up by channel, frame, row and column: element i is i, or i/8 where it
is floating point.
"""
import numpy as np

SHAPE = (3, 2, 4, 5)
count = np.arange(np.prod(SHAPE))

np.save("clip-f2.npy", (count / 8).astype(np.float16).reshape(SHAPE))
np.save("image-f4.npy", (count[:60] / 8).astype(np.float32).reshape(3, 4, 5))
np.save("grey-u1.npy", count[:20].astype(np.uint8).reshape(4, 5))
np.save("row-f4.npy", (count[:20] / 8).astype(np.float32))
with open("version2-f2.npy", "wb") as f:
    np.lib.format.write_array(f, (count / 8).astype(np.float16).reshape(SHAPE), version=(2, 0))
np.save("bad-f8.npy", count.astype(np.float64))
np.save("bad-bigendian.npy", count.astype(">f4"))
np.save("bad-fortran.npy", np.asfortranarray(count.astype(np.float32).reshape(12, 10)))
np.save("bad-struct.npy", np.zeros(3, dtype=[("a", "<f4"), ("b", "<i4")]))
np.save("bad-scalar.npy", np.float32(1))
np.save("bad-deep.npy", np.zeros((1, 1, 1, 1, 1), np.float32))
np.save("bad-empty.npy", np.zeros((0, 3), np.float32))
