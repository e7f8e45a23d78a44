//go:build !cgo

package cpu

func (*band) split([]float32, []uint16)                                                {}
func (*band) multiply([]uint16, []uint16, []float32, []float32, int, *band, []float32) {}
func (*band) packFilters(bool, []float32, int, int, []uint16)                          {}
