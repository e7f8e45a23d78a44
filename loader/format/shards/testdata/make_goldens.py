#!/usr/bin/env python3
"""Writes a shard of package shards' tests as WebDataset's own writer does.

Needs webdataset and NumPy (made with 1.0.2 and 2.4.6).
"""
import numpy as np
import webdataset as wds

with wds.TarWriter("webdataset-0.tar") as w:
    for i in range(3):
        w.write({
            "__key__": "clips/%03d" % i,
            "npy": np.full((3, 2, 4, 5), i / 4, np.float16),
            "cls": i % 2,
            "json": {"caption": "number %d" % i, "label": 7},
        })
