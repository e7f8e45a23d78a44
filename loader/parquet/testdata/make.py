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
    "zstd2": {"compression": "zstd", "compression_level": 19, "data_page_version": "2.0", "use_dictionary": False},
}.items():
    pq.write_table(table, os.path.join(here, name + ".parquet"), **how)

n = range(4)
kinds = pa.table({
    "n": pa.array(n, pa.int64()),
    "u32": pa.array([2**32 - 1 - i for i in n], pa.uint32()),
    "u64": pa.array([2**63 - 4 + i for i in n], pa.uint64()),
    "beyond": pa.array([2**64 - 1 - i for i in n], pa.uint64()),
    "price": pa.array(n).cast(pa.decimal128(21, 2)),
    "half": pa.array(n, pa.float64()).cast(pa.float16()),
    "nested": pa.array([{"a": i, "b": [i]} for i in n]),
    "delta": pa.array(n, pa.int64()),
    "last": pa.array(n, pa.uint8()),
})
pq.write_table(kinds, os.path.join(here, "kinds.parquet"), use_dictionary=False, column_encoding={"delta": "DELTA_BINARY_PACKED"})
