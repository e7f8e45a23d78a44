package emu

import (
	"testing"

	"dev.gpustall/engine/device/devicetest"
)

func TestDevice(t *testing.T) {
	for _, p := range Presets() {
		t.Run(p.Name, func(t *testing.T) { devicetest.Run(t, New(p, new(VirtualClock))) })
	}
}
