package store

import (
	"bytes"
	"compress/flate"
	"database/sql"
	"hash/crc32"
	"io"

	"dev.gpustall/engine/trace"
)

const (
	// readThrough is the largest number of steps that are all read and checked when a file is
	// opened, which is quick. Of a longer run only the digest is read, and the steps that were
	// written after it.
	readThrough = 20_000

	// digestEvery is the least number of steps between two digests. A long run waits until there
	// are 1/16 more, so that digests cost little.
	digestEvery = 8192

	maxDigest = 64 << 20 // bytes, before compression
)

// putDigest writes the digest of the steps that are already in the file.
func (st *File) putDigest(tx *sql.Tx) error {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return err
	}
	sum := crc32.NewIEEE()
	if _, err := st.digest.WriteTo(io.MultiWriter(w, sum)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT OR REPLACE INTO digest VALUES(1, ?, ?)`, b.Bytes(), sum.Sum32())
	return err
}

// due reports whether it is time for another digest.
func (st *File) due() bool {
	n := st.digest.Total.Steps
	return n-st.digested > max(digestEvery, n/16)
}

// digest reads the digest of a file; nil where it has none that can be used.
func (l *loader) digest() *trace.Digest {
	if !l.hasColumn("digest", "data") {
		return nil
	}
	var d *trace.Digest
	l.rows(`SELECT data, crc FROM digest WHERE id = 1`, func(r *sql.Rows) error {
		var data []byte
		var sum sql.NullInt64
		if r.Scan(&data, &sum) != nil {
			return nil //nolint:nilerr // then the steps are read instead
		}
		raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data)), maxDigest))
		if err != nil || sum.Int64 != int64(crc32.ChecksumIEEE(raw)) {
			return nil //nolint:nilerr // as above
		}
		var read trace.Digest
		if read.UnmarshalBinary(raw) == nil {
			d = &read
		}
		return nil
	})
	return d
}
