//go:build asan

package jpeg

// spare is 0 when memory is checked. With spare bytes, an access past the planes' end would not
// be found.
const spare = 0
