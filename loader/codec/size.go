package codec

import "bytes"

// Size returns the width and height in an image's header; ok is false if they are unknown.
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
