package pixels

import "dev.gpustall/kernels"

// Shift copies rows of x, of w x h pixels, to y, of outW x outH. Its numbers p are those of
// kernels.Shift.
func Shift(w, h, outW, outH int, p []int32, x, y []byte) {
	dy, dx := int(p[kernels.ShiftY]), int(p[kernels.ShiftX])
	left, right := min(max(0, -dx), outW), max(min(outW, w-dx), 0)
	for i := range outH {
		out := y[i*outW*3 : (i+1)*outW*3]
		r := i + dy
		if p[kernels.ShiftUpside] != 0 {
			r = outH - 1 - i + dy
		}
		if r < 0 || r >= h || left >= right {
			clear(out)
			continue
		}
		clear(out[:left*3])
		copy(out[left*3:right*3], x[(r*w+left+dx)*3:])
		clear(out[right*3:])
		if p[kernels.ShiftFlip] != 0 {
			Mirror(out)
		}
	}
}

// Mirror reverses a row of RGB pixels.
func Mirror(row []byte) {
	for l, r := 0, len(row)-3; l < r; l, r = l+3, r-3 {
		row[l], row[r] = row[r], row[l]
		row[l+1], row[r+1] = row[r+1], row[l+1]
		row[l+2], row[r+2] = row[r+2], row[l+2]
	}
}
