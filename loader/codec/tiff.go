package codec

import (
	"encoding/binary"
	"image"
)

// Tags of a TIFF (TIFF 6.0, section 8), and the values of them that are used here.
const (
	tagCompression = 259
	tagPhotometric = 262
	group3         = 3
	group4         = 4
	blackIsZero    = 1
)

// unreverse repairs a fax in a TIFF that says that black is zero. A fax codes white as 0 and black
// as 1, so its image has to be reversed (TIFF 6.0, page 37). libtiff does that. Package tiff shows
// the image as the fax codes it.
func unreverse(b []byte, m *image.Gray) {
	compression, photometric := tiffTags(b)
	if (compression == group3 || compression == group4) && photometric == blackIsZero {
		for i, v := range m.Pix {
			m.Pix[i] = ^v
		}
	}
}

// tiffTags finds two values in the first directory of a file that package tiff has
// accepted. Each 12-byte entry of the directory is a tag, a type, a count and the
// value.
func tiffTags(b []byte) (compression, photometric uint16) {
	var order binary.ByteOrder = binary.LittleEndian
	if len(b) >= 8 && b[0] == 'M' {
		order = binary.BigEndian
	}
	at := func(i uint64, n int) []byte {
		if i+uint64(n) > uint64(len(b)) {
			return make([]byte, n)
		}
		return b[i:]
	}
	dir := uint64(order.Uint32(at(4, 4)))
	for i := range uint64(order.Uint16(at(dir, 2))) {
		entry := at(dir+2+12*i, 12)
		switch order.Uint16(entry) {
		case tagCompression:
			compression = order.Uint16(entry[8:])
		case tagPhotometric:
			photometric = order.Uint16(entry[8:])
		}
	}
	return compression, photometric
}
