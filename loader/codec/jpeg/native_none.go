//go:build !cgo || !amd64

package jpeg

// native says whether there is C for this processor.
var native = false

// How says which code decodes.
func How() string { return "Go, which is slower: there is no C for it in this build" }

func (d *Decoder) nativeScan(int) bool { return false }

// RGB writes the part as RGB, if there is C for this kind of image.
func (d *Decoder) RGB([]byte) bool { return false }
