package report

import (
	"bytes"
	"strings"
	"testing"

	"dev.gpustall/engine/trace"
)

// An emulated device is labelled, and the label says what its times are.
func TestEmulatedLabels(t *testing.T) {
	for _, tt := range []struct {
		meta trace.Meta
		says []string
		not  string
	}{
		{trace.Meta{DeviceKind: "emu", Emulated: true}, []string{"Note: emulated.", "modelled, not measured", "from a model of it"}, "driver"},
		{trace.Meta{DeviceKind: "cuda", Emulated: true}, []string{"Note: emulated.", "the host's, not a GPU's", "an emulated driver"}, "modelled"},
		{trace.Meta{DeviceKind: "cuda"}, nil, "mulated"},
	} {
		tt.meta.Model, tt.meta.Device = "cnn", "a device"
		var b bytes.Buffer
		if err := Markdown(&b, &trace.Snapshot{Meta: tt.meta}, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.says {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s, emulated %v: the report does not say %q", tt.meta.DeviceKind, tt.meta.Emulated, want)
			}
		}
		if strings.Contains(b.String(), tt.not) {
			t.Errorf("%s, emulated %v: the report says %q", tt.meta.DeviceKind, tt.meta.Emulated, tt.not)
		}
	}
}
