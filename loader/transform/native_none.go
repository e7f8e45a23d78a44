//go:build !cgo || !amd64

package transform

import "dev.gpustall/loader"

// native says whether there is C code for this machine. Without it nothing below is called.
var native, native512 = false, false

// together is how many images nativePlanes takes at once.
const together = 1

func (t *Crop) nativePlanes([]loader.Sample, int, []float32)                      {}
func (t *Crop) nativeWrite([]byte, int, int, int, int, int, int, bool, []float32) {}
func (n *Norm) nativeRow([]float32, []byte)                                       {}
func nativeInterleave(dst, planes []byte)                                         {}
