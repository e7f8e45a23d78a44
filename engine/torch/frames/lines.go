package frames

// span is a stretch of a function's instructions with one line. It begins where the previous span
// ends.
type span struct {
	end  int64 // offset in bytes
	line int   // 0: none
}

// unstarted is how far before a function's first instruction a call can be that has not begun. A free-threaded interpreter
// may run a copy of the instructions, which lies anywhere.
const unstarted = 16

// lineAt returns the line of an instruction; 0 where it has none.
func lineAt(spans []span, offset int64) int {
	for _, s := range spans {
		if offset < s.end && offset >= -unstarted {
			return s.line
		}
	}
	return 0
}

// spansOf decodes a code object's table of lines. CPython's Objects/locations.md describes the form of
// 3.11 and later, Objects/lnotab_notes.txt the earlier ones.
func spansOf(form string, table []byte, first int) []span {
	switch form {
	case "locations":
		return locations(table, first)
	case "linetable":
		return lineTable(table, first)
	}
	return lnotab(table, first)
}

func locations(table []byte, line int) (spans []span) {
	offset := int64(0)
	for i := 0; i < len(table); {
		code, units := table[i]>>3&15, int64(table[i]&7)+1
		i++
		varint := func() (v int) {
			for shift := 0; i < len(table) && shift < 32; shift += 6 {
				b := table[i]
				i++
				v |= int(b&63) << shift
				if b&64 == 0 {
					break
				}
			}
			return v
		}
		here := true
		switch code {
		case 15: // no location
			here = false
		case 14, 13: // with columns, and without
			delta := varint()
			if delta&1 == 1 {
				delta = -(delta >> 1)
			} else {
				delta >>= 1
			}
			line += delta
			if code == 14 {
				varint()
				varint()
				varint()
			}
		case 12, 11, 10:
			line += int(code) - 10
			i += 2
		default:
			i++
		}
		offset += 2 * units
		s := span{end: offset}
		if here {
			s.line = line
		}
		spans = append(spans, s)
	}
	return spans
}

// lineTable decodes the form of 3.10. Its pairs say how many bytes a line has, and how far the line
// is from the one before.
func lineTable(table []byte, line int) (spans []span) {
	offset := int64(0)
	for i := 0; i+1 < len(table); i += 2 {
		offset += int64(table[i])
		s := span{end: offset}
		if delta := int8(table[i+1]); delta != -128 {
			line += int(delta)
			s.line = line
		}
		spans = append(spans, s)
	}
	return spans
}

// lnotab decodes the form of 3.9 and earlier. Its pairs say how many bytes later a line begins, and
// how far the line is from the one before.
func lnotab(table []byte, line int) (spans []span) {
	offset := int64(0)
	for i := 0; i+1 < len(table); i += 2 {
		if table[i] > 0 {
			offset += int64(table[i])
			spans = append(spans, span{offset, line})
		}
		line += int(int8(table[i+1]))
	}
	return append(spans, span{1 << 40, line})
}
