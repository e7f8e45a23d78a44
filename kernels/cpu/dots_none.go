//go:build !cgo

package cpu

func bestDots() dots { return noDots }

func (pl *Plan) bindDots(Call) func() { return nil }
