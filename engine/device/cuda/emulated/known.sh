#!/bin/sh
# known.sh: writes the PTX that belongs to the kernels' sources as a table of C++:
# a POSIX checksum and a length for each file. The emulated driver runs those sources
# and refuses any other PTX. It fails when the PTX is older than the sources.
set -eu
export LC_ALL=C # the order of names
cd "$(dirname "$0")/../../../../kernels/cuda"
if [ "$(sha256sum build.sh *.cu *.h)" != "$(cat ptx/SOURCES)" ]; then
  echo "emulated driver: kernels/cuda/ptx was made of other sources: run kernels/cuda/build.sh" >&2
  exit 1
fi
cd ptx
cksum *.ptx | sed 's/^\([0-9]*\) \([0-9]*\) \(.*\)$/{\1u, \2u, "\3"},/'
