//go:build !asan

package jpeg

// spare is how many bytes planes have beyond this image at most: the next may be somewhat
// larger.
const spare = 1 << 20
