//go:build !cgo

package cpu

import "dev.gpustall/kernels"

// Without cgo bestDots returns noDots, so nothing calls the functions below.
func packLeftThirds(int, int, []float32, int, []uint16)                                      {}
func packTapThirds(*window, []float32, int, int, int, int, []uint16, int)                    {}
func packTapPairs(*window, []float32, int, int, int, int, []uint16, int)                     {}
func packRightThirds(int, int, []float32, int, bool, int, int, []uint16, int)                {}
func gemmThirds(int, int, int, []uint16, int, []uint16, int, []float32, int, []float32, int) {}

func (pl convolutions) thirdsForward(kernels.ConvForward, []float32, []float32, []float32, []float32) func() {
	return nil
}
func (pl convolutions) thirdsBackward(kernels.ConvBackwardData, []float32, []float32, []float32) func() {
	return nil
}
func (pl convolutions) thirdsWeight(kernels.Conv, []float32, []float32, []float32, []float32) func() {
	return nil
}
