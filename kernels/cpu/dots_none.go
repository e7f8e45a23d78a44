//go:build !cgo

package cpu

func bestDots() dots { return noDots }

func (pl bf16) bindNative(Call) func() { return nil }
