package codec

import "bytes"

// Size is the width and height of an image by its header; false where they are not known.
func Size(b []byte) (w, h int, ok bool) {
	for i := range kinds {
		if !kinds[i].matches(b) {
			continue
		}
		c, err := kinds[i].config(bytes.NewReader(b))
		return c.Width, c.Height, err == nil
	}
	return 0, 0, false
}
