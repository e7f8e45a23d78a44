"""Writes the table of parquet_test.go with pyarrow, in the forms that it has. Run: python make.py"""
import os

import pyarrow as pa
import pyarrow.parquet as pq

here = os.path.dirname(os.path.abspath(__file__))
n = range(40)
table = pa.table({
    "n": pa.array([i * 7 - 100 for i in n], pa.int32()),
    "list": pa.array([[i, i] for i in n]),
    "x": pa.array([i / 8 for i in n], pa.float64()),
    "text": pa.array([None if i % 4 == 1 else "ü" * (i % 5) for i in n]),
    "yes": pa.array([i % 3 % 2 == 1 for i in n]),
})
for name, how in {
    "default": {}, "gzip": {"compression": "gzip"}, "plain": {"compression": "none", "use_dictionary": False},
    "pages2": {"data_page_version": "2.0"}, "groups": {"row_group_size": 7}, "zstd": {"compression": "zstd"},
}.items():
    pq.write_table(table, os.path.join(here, name + ".parquet"), **how)
