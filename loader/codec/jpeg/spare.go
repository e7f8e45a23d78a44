//go:build !asan

package jpeg

// spare is what planes have in bytes beyond this image, at the most: the next may be
// somewhat larger.
const spare = 1 << 20
