//go:build !asan

package jpeg

// spare is the most bytes that planes have beyond this image, because the next one may be
// somewhat larger.
const spare = 1 << 20
