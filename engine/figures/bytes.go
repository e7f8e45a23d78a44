package figures

var (
	sizeUnits     = [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	transferUnits = [...]string{"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"}
)

// AppendBytes writes a size in memory or in a file, in units of 1024: 36.4 MiB.
func (f Form) AppendBytes(b []byte, n int64) []byte {
	return f.scaled(b, float64(n), 1024, sizeUnits[:])
}

// Bytes is AppendBytes as a string.
func (f Form) Bytes(n int64) string { return string(f.AppendBytes(nil, n)) }

// AppendTransfer writes bytes a second, in units of 1000: 11.9 GB/s.
func (f Form) AppendTransfer(b []byte, perSecond float64) []byte {
	if !known(perSecond) {
		return append(b, missing)
	}
	return f.scaled(b, perSecond, 1000, transferUnits[:])
}

// Transfer is AppendTransfer as a string.
func (f Form) Transfer(perSecond float64) string { return string(f.AppendTransfer(nil, perSecond)) }

// scaled writes v in the smallest unit in which it does not round up to the next.
func (f Form) scaled(b []byte, v, base float64, units []string) []byte {
	if v < 0 {
		b, v = append(b, '-'), -v
	}
	if v < base-0.5 {
		return f.unit(appendRounded(b, v, 0), units[0])
	}
	i := 0
	for v >= base-0.5 && i < len(units)-1 {
		v /= base
		i++
	}
	return f.unit(appendThree(b, v), units[i])
}
