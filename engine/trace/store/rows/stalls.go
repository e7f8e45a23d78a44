package rows

import (
	"strconv"
	"strings"

	"dev.gpustall/engine/trace"
)

// AppendStalls writes the nonzero stalls by name: "decode 1200 copy 34".
func AppendStalls(b []byte, stall *[trace.NumCauses]int64) []byte {
	for c, ns := range stall {
		if ns == 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(b, trace.Cause(c).String()...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, ns, 10)
	}
	return b
}

// ParseStalls reads what AppendStalls wrote. A cause that this program does not know counts as
// unknown, so that the sum stays exact.
func ParseStalls(text string, stall *[trace.NumCauses]int64) error {
	for len(text) > 0 {
		name, rest, ok := strings.Cut(text, " ")
		if !ok {
			return ErrDamaged
		}
		var number string
		number, text, _ = strings.Cut(rest, " ")
		ns, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return ErrDamaged
		}
		c, _ := trace.ParseCause(name)
		stall[c] += ns
	}
	return nil
}
