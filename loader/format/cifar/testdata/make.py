"""Writes the small data sets beside this file, with the real pickle and numpy.

  py2/  as Python 2's cPickle wrote the published files: protocol 2, str for bytes
  py3/  protocol 2 from Python 3, where bytes go through _codecs.encode
  py4/  protocol 4, in frames
  bin/  the binary version of the same samples
  expected.json  labels and a checksum of each sample's planes

Two samples a batch. Run: python make.py
"""
import hashlib
import io
import json
import os
import pickle
import struct

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


class Python2(pickle._Pickler):
    """Emits bytes as Python 2's str: SHORT_BINSTRING, BINSTRING."""
    dispatch = dict(pickle._Pickler.dispatch)

    def save_str2(self, obj):
        if len(obj) < 256:
            self.write(b"U" + struct.pack("<B", len(obj)) + obj)
        else:
            self.write(b"T" + struct.pack("<i", len(obj)) + obj)
        self.memoize(obj)

    dispatch[bytes] = save_str2
    dispatch[str] = lambda self, obj: self.save_str2(obj.encode("latin1"))


def dump(kind, obj):
    if kind == "py2":
        f = io.BytesIO()
        Python2(f, 2).dump(obj)
        return f.getvalue()
    return pickle.dumps(obj, 2 if kind == "py3" else 4)


rng = np.random.RandomState(7)
batches = {}
for name in ["data_batch_%d" % (k + 1) for k in range(5)] + ["test_batch"]:
    # coarse blocks, so that the files compress well
    data = np.kron(rng.randint(0, 256, (2, 3, 4, 4)), np.ones((8, 8))).astype(np.uint8).reshape(2, 3072)
    data[:, ::97] = rng.randint(0, 256, data[:, ::97].shape)
    batches[name] = (data, [int(x) for x in rng.randint(0, 10, 2)])

expected = {}
for kind in ("py2", "py3", "py4", "bin"):
    os.makedirs(os.path.join(here, kind), exist_ok=True)
    for name, (data, labels) in batches.items():
        path = os.path.join(here, kind, name)
        if kind == "bin":
            with open(path + ".bin", "wb") as f:
                for row, label in zip(data, labels):
                    f.write(bytes([label]) + row.tobytes())
            expected[name] = [{"label": label, "sha256": hashlib.sha256(row.tobytes()).hexdigest()} for row, label in zip(data, labels)]
            continue
        # py3's second batch is in Fortran order, which numpy also pickles
        d = np.asfortranarray(data) if (kind, name) == ("py3", "data_batch_2") else data
        with open(path, "wb") as f:
            f.write(dump(kind, {b"batch_label": b"made by make.py", b"labels": labels, b"data": d,
                                b"filenames": [b"sample_%d.png" % k for k in range(2)]}))
    if kind == "bin":
        with open(os.path.join(here, kind, "batches.meta.txt"), "w") as f:
            f.write("\n".join(names) + "\n\n")
    else:
        with open(os.path.join(here, kind, "batches.meta"), "wb") as f:
            f.write(dump(kind, {b"num_cases_per_batch": 2, b"label_names": [n.encode() for n in names], b"num_vis": 3072}))

with open(os.path.join(here, "expected.json"), "w") as f:
    json.dump(expected, f, indent=1)
    f.write("\n")

# CIFAR-100, in both versions: two classes a sample, of which the fine one counts.
many = {}
os.makedirs(os.path.join(here, "py100"), exist_ok=True)
os.makedirs(os.path.join(here, "bin100"), exist_ok=True)
for name in ("train", "test"):
    data = np.kron(rng.randint(0, 256, (2, 3, 4, 4)), np.ones((8, 8))).astype(np.uint8).reshape(2, 3072)
    fine, coarse = [int(x) for x in rng.randint(0, 100, 2)], [int(x) for x in rng.randint(0, 20, 2)]
    with open(os.path.join(here, "py100", name), "wb") as f:
        f.write(dump("py2", {b"batch_label": b"made by make.py", b"coarse_labels": coarse, b"fine_labels": fine, b"data": data,
                             b"filenames": [b"sample_%d.png" % k for k in range(2)]}))
    with open(os.path.join(here, "bin100", name + ".bin"), "wb") as f:
        for row, c, label in zip(data, coarse, fine):
            f.write(bytes([c, label]) + row.tobytes())
    many[name] = [{"label": label, "sha256": hashlib.sha256(row.tobytes()).hexdigest()} for row, label in zip(data, fine)]
fine = ["fine %d" % k for k in range(100)]
with open(os.path.join(here, "py100", "meta"), "wb") as f:
    f.write(dump("py2", {b"fine_label_names": [n.encode() for n in fine], b"coarse_label_names": [b"coarse %d" % k for k in range(20)]}))
with open(os.path.join(here, "bin100", "fine_label_names.txt"), "w") as f:
    f.write("\n".join(fine) + "\n")
with open(os.path.join(here, "expected100.json"), "w") as f:
    json.dump(many, f, indent=1)
    f.write("\n")
