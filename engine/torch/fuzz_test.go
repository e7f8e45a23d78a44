package torch

import (
	"bytes"
	"context"
	"testing"

	"dev.gpustall/engine/base/errs"
)

// FuzzImport: any bytes give one error of the right form, or a session that adds up.
func FuzzImport(f *testing.F) {
	for _, text := range []string{
		`{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"A","totalGlobalMem":1000}],"traceEvents":[` +
			x("cpu_op", "ProfilerStep#1", "0.5", "100", "") + "," + launch("cuda_runtime", "kernel", 5, 10, 200, 1) + "," +
			x("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "1", "3", "") + "," +
			x("gpu_memcpy", "Memcpy HtoD", "3", "9", `"bytes":12,"correlation":1`) + "," + x("user_annotation", "ProfilerStep#2", "90", "100", "") + `]}`,
		`[` + x("Kernel", "ncclKernel", "1623142623460111", "5", `"blocks per SM":NaN,"est. achieved occupancy %":1e300`) + `]`,
		`{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a\\\"\u00e9","ts":-9223372036854775808,"dur":9223372036854775807}],"baseTimeNanoseconds":N/A}`,
		`{"traceEvents":[{"ph":"i","name":"[memory]","args":{"Device Type":1,"Device Id":99,"Total Allocated":5}},` + x("kernel", "k", "4e18", "4e18", "") + "]}",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Import(context.Background(), bytes.NewReader(text), "x")
		if err != nil {
			if e, ok := errs.As(err); !ok || e.Op != "import" || e.Reason == "" || e.Hint == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		exact(t, s)
		for i := range s.Meta.Profile.Steps {
			st := &s.Meta.Profile.Steps[i]
			var sum int64
			for _, ns := range st.Roles {
				sum += ns
			}
			if sum != st.Length {
				t.Errorf("%s: the roles are %d ns of %d", st.Name, sum, st.Length)
			}
		}
	})
}
