package transform

// Interleave writes the pixels of an image, three bytes each, whose red, green and blue planes
// lie one behind the other in planes. dst is as long as planes.
func Interleave(dst, planes []byte) {
	n := len(planes) / 3
	if native && n > 0 && n%32 == 0 && len(planes) == 3*n {
		nativeInterleave(dst, planes)
		return
	}
	interleave(dst, planes)
}

func interleave(dst, planes []byte) {
	n := len(planes) / 3
	r, g, b := planes[:n], planes[n:2*n], planes[2*n:3*n]
	dst = dst[:3*n]
	for i, v := range r {
		dst[3*i], dst[3*i+1], dst[3*i+2] = v, g[i], b[i]
	}
}
