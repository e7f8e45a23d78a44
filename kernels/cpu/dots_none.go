//go:build !cgo

package cpu

func bestDots() dots { return noDots }

func (pl *Plan) bindHalves(Call) func() { return nil }
