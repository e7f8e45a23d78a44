//go:build asan

package jpeg

// spare is none where memory is checked: what is read or written past the planes' end
// would be in it, and not be found.
const spare = 0
