package marker

import "testing"

// FuzzParse: a marker's file marks the data, whatever is in it.
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
