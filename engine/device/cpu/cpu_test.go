package cpu

import (
	"testing"

	"go.uber.org/goleak"

	"dev.gpustall/engine/device/devicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(tb testing.TB) *Device {
	tb.Helper()
	d, err := Open(0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

func TestDevice(t *testing.T) { devicetest.Run(t, open(t)) }

func BenchmarkDevice(b *testing.B) { devicetest.Bench(b, open(b)) }
