package marker

import "testing"

// FuzzParse: whatever is in a marker's file, it marks.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"format":"cifar10-binary","name":"CIFAR-10","samples":50000,"test":10000,"seed":1}`, `{"samples":"many"}`, "", "null", "{"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m := parse(b); m == nil || !m.Same(*m) {
			t.Fatalf("%+v", m)
		}
	})
}
