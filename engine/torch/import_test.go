package torch

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
)

// expected are the cells of PyTorch's own TensorBoard plugin for two real traces.
type expected struct {
	Steps       map[string][]int64
	Average     []int64
	Utilisation float64 `json:"gpu_utilization_percent"`
	Efficiency  float64 `json:"est_sm_efficiency_percent"`
	Occupancy   float64 `json:"est_achieved_occupancy_percent"`
	Share       float64 `json:"dataloader_share_percent"`
}

func open(t testing.TB, path string) *trace.Snapshot {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := Import(context.Background(), f, filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCells compares every cell of the plugin's step breakdown: times within 1 us and
// percentages within 0.01.
func TestCells(t *testing.T) {
	text, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{0, 4} {
		name := fmt.Sprintf("resnet50_num_workers_%d.pt.trace.json.gz", workers)
		t.Run(name, func(t *testing.T) {
			var want expected
			if err := json.Unmarshal(file[name], &want); err != nil {
				t.Fatal(err)
			}
			s := open(t, "testdata/"+name)
			p := s.Meta.Profile
			if len(p.Steps) != len(want.Steps) || int(p.Count) != len(want.Steps) || len(want.Steps) != 6 {
				t.Fatalf("%d steps, want %d", len(p.Steps), len(want.Steps))
			}
			for _, step := range p.Steps {
				cells(t, &step, 1, want.Steps[step.Name])
			}
			cells(t, &p.Total, float64(p.Count), want.Average)
			if len(p.GPUs) != 1 {
				t.Fatalf("%d GPUs, want 1", len(p.GPUs))
			}
			g := &p.GPUs[0]
			for what, pair := range map[string][2]float64{
				"utilisation": {g.Utilisation, want.Utilisation}, "efficiency": {*g.Efficiency, want.Efficiency},
				"occupancy": {*g.Occupancy, want.Occupancy}, "share": {p.Share(trace.RoleDataLoader), want.Share},
			} {
				if got := 100 * pair[0]; !(math.Abs(got-pair[1]) <= 0.01) {
					t.Errorf("%s is %.3f %%, want %.2f", what, got, pair[1])
				}
			}
			exact(t, s)
		})
	}
}

// cells compares a row, or the mean of n.
func cells(t *testing.T, s *trace.ProfiledStep, n float64, want []int64) {
	t.Helper()
	if len(want) != int(trace.NumRoles)+1 {
		t.Fatalf("%s: %d columns are expected", s.Name, len(want))
	}
	for role, us := range want[:trace.NumRoles] {
		if got := float64(s.Roles[role]) / n / 1000; math.Abs(got-float64(us)) > 1 {
			t.Errorf("%s %s is %.3f us, want %d", s.Name, trace.Role(role), got, us)
		}
	}
	if got := float64(s.Length) / n / 1000; math.Abs(got-float64(want[trace.NumRoles])) > 1 {
		t.Errorf("%s takes %.3f us, want %d", s.Name, got, want[trace.NumRoles])
	}
}

// exact checks what holds for every session. Busy time and causes add up, steps rise
// and do not overlap, and nothing is told that the trace does not have.
func exact(t testing.TB, s *trace.Snapshot) {
	t.Helper()
	before, last := int64(0), int32(-1)
	for i := range s.Recent {
		st := &s.Recent[i]
		sum := st.Busy
		for _, ns := range st.Stall {
			sum += ns
		}
		if sum != st.End-st.Start || st.Busy < 0 {
			t.Errorf("step %d: busy and causes are %d ns of %d", st.Index, sum, st.End-st.Start)
		}
		if st.Start < before || st.Index <= last {
			t.Errorf("step %d begins at %d, the one before ended at %d", st.Index, st.Start, before)
		}
		if st.Samples != 0 || st.Load != 0 || st.Work.Measured() || st.Correct != -1 {
			t.Errorf("step %d tells what no trace does: %+v", st.Index, st)
		}
		before, last = st.End, st.Index
	}
	for _, sp := range s.Spans {
		if sp.End < sp.Start || sp.Start < 0 || sp.End > s.Now {
			t.Fatalf("a span from %d to %d of %d ns", sp.Start, sp.End, s.Now)
		}
	}
}

// TestBroken: a broken trace gives one error, which says what is wrong and what to do.
func TestBroken(t *testing.T) {
	good := `{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"ProfilerStep#1","ts":1,"dur":10}]}`
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(good))
	_ = z.Close()
	for _, c := range []struct{ name, input, reason string }{
		{"empty", "", "there is nothing in it"},
		{"no JSON", "PK\x03", "where a trace begins"},
		{"cut before what the GPU did", `{"deviceProperties":[{"id":0,"name":"A"}],` + good[1:len(good)-1] + ",", "before what the GPU did"},
		{"no events", `{"a":1}`, "no list traceEvents"},
		{"no step", `{"traceEvents":[{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","ts":1,"dur":10}]}`, "it holds no step, operator or kernel"},
		{"of JAX", `{"traceEvents":[{"ph":"X","name":"fusion_1","ts":1,"dur":10},{"ph":"X","name":"fusion_2","ts":1,"dur":10}]}`, "its 2 events are no step"},
		{"cut", good[:len(good)-20], "it ends too soon"},
		{"cut in a string", good[:30], "it ends too soon"},
		{"cut gzip", packed.String()[:packed.Len()/2], "it ends too soon"},
		{"more behind gzip", packed.String() + "{}", "its compression is damaged"},
		{"xz", "\xfd7zXZ\x00", "packed by xz"},
		{"tar", strings.Repeat("a", tarAt) + tarMagic + "\x0000", "a tar archive"},
		{"an export of Nsight Systems", "SQLite format 3\x00", "an SQLite file"},
		{"a memory snapshot", "\x80\x04\x95", "a Python pickle"},
		{"damaged zstd", "\x28\xb5\x2f\xfd\xff\xff\xff\xff", "its compression is damaged"},
		{"damaged bzip2", "BZh91AY&SY\xff\xff\xff\xff\xff\xff\xff", "its compression is damaged"},
		{"two traces in two members", packed.String() + packed.String(), "behind its end"},
		{"damaged gzip", packed.String()[:12] + "\xff\xff\xff\xff" + packed.String()[16:], "its compression is damaged"},
		{"no comma", `{"traceEvents":[{"ph":"X" "cat":"x"}]}`, "where a comma"},
		{"no colon", `{"traceEvents":[{"ph""X"}]}`, "where a colon"},
		{"deep", `{"traceEvents":[{"args":{"x":` + strings.Repeat("[", 1<<20), "more than 64 deep"},
		{"long word", `{"traceEvents":[{"ts":` + strings.Repeat("9", 1<<20), "longer than any"},
		{"halves", `{"traceEvents":[{"ph":"B","cat":"cpu_op","name":"ProfilerStep#1","ts":1},{"ph":"E","ts":2}]}`, "ph B and E"},
		{"more behind", good + "{}", "behind its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Import(context.Background(), strings.NewReader(c.input), "x.json")
			f, ok := errs.As(err)
			if !ok || f.Op != "import" || f.Object != "x.json" || f.Hint == "" {
				t.Fatalf("the error is %#v", err)
			}
			if !strings.Contains(f.Reason, c.reason) || strings.Contains(f.Reason, f.Hint) {
				t.Errorf("the reason is %q, want %q", f.Reason, c.reason)
			}
		})
	}
	if _, err := Import(context.Background(), &packed, "x.json.gz"); err != nil {
		t.Errorf("the whole one: %v", err)
	}
	if _, err := Import(context.Background(), strings.NewReader("\ufeff"+good), "x.json"); err != nil {
		t.Errorf("behind a byte order mark: %v", err)
	}
}

// TestMembers: a gzip file may have several members, as parallel compressors write them, and
// zeros at its end.
func TestMembers(t *testing.T) {
	const good = `{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"ProfilerStep#1","ts":1,"dur":10}]}`
	member := func(text string) string {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return packed.String()
	}
	zeros := strings.Repeat("\x00", 100_000)
	for name, packed := range map[string]string{
		"one": member(good), "zeros": member(good) + zeros, "two": member(good[:40]) + member(good[40:]),
		"zeros between": member(good[:40]) + zeros + member(good[40:]) + "\x00", "empty ones": strings.Repeat(member(""), 200) + member(good) + member(""),
	} {
		if s, err := Import(context.Background(), strings.NewReader(packed), name); err != nil || len(s.Recent) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPacked: a trace may be packed in several ways, even twice, and be in UTF-16.
func TestPacked(t *testing.T) {
	const good = `{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"ProfilerStep#1","ts":1,"dur":10}]}`
	pack := func(with func(io.Writer) io.WriteCloser, text string) string {
		var b bytes.Buffer
		z := with(&b)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return b.String()
	}
	gz := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	zst := func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)); return z }
	zipped := func(method uint16, files ...string) string {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range files {
			f, _ := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
			if !strings.HasSuffix(name, "/") {
				_, _ = f.Write([]byte(good))
			}
		}
		_ = z.Close()
		return b.String()
	}
	const bz = "\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\x87\xf6\xa1\x2d\x00\x00\x28\x1f\x80\x18\x04\x60\x10\x02\x00\x48\x4a\xaf\x67\xdf\x0a\x20\x00\x54\x54\xd3\x13\x4c\x11\x80\x02\x79\x41\xaa\x7e\xa9\xa3\x47\xa9\x88\x68\x0d\x1a\x66\xa2\x49\xb1\xde\x73\x99\x78\x71\x22\xa0\xa3\xb2\x20\xbd\xa1\x82\xc7\x14\x2c\x5a\xdd\x49\x36\x44\x51\x8b\x1a\xab\xc0\x56\xb7\xb8\x3b\x31\xdb\xe9\x9b\xa2\x91\x5b\x49\x21\xe0\xfc\x14\x01\xfc\x5d\xc9\x14\xe1\x42\x42\x1f\xda\x84\xb4" // Go has no writer
	utf16, _ := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(good)
	for name, packed := range map[string]string{
		"zstd": pack(zst, good), "two frames of zstd": pack(zst, good[:30]) + pack(zst, good[30:]), "zip": zipped(zip.Deflate, "x.json"), "zip with a folder": zipped(zip.Deflate, "log/", "log/x.json"),
		"gz of gz": pack(gz, pack(gz, good)), "gz of zip": pack(gz, zipped(zip.Deflate, "x.json")), "UTF-16": utf16, "gz of UTF-16": pack(gz, utf16),
		"bzip2": bz,
	} {
		if s, err := Import(context.Background(), strings.NewReader(packed), name); err != nil || len(s.Recent) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for reason, packed := range map[string]string{
		"a zip of several files": zipped(zip.Deflate, "x.json", "y.json"), "packed more than 4 times": pack(gz, pack(gz, pack(gz, pack(gz, pack(gz, good))))),
		"by a method that is not read": zipped(zip.Store, "x.json"), // of which no size comes first
	} {
		if _, err := Import(context.Background(), strings.NewReader(packed), "x"); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s is told as %v", reason, err)
		}
	}
}

// TestBreaksOff: a trace that breaks off is told as far as it goes, and says so. Only complete steps count.
func TestBreaksOff(t *testing.T) {
	whole := func(steps int, last bool) string {
		var b, kernels strings.Builder
		to := &b
		if last { // what the GPU did follows all else, as the profiler writes it
			to = &kernels
		}
		b.WriteString(`{"traceEvents":[`)
		for i := range steps {
			fmt.Fprintf(&b, `{"ph":"X","cat":"cpu_op","name":"ProfilerStep#%d","pid":1,"tid":1,"ts":%d,"dur":90},`, i, 100*i)
		}
		for i := range 2 * steps {
			fmt.Fprintf(&b, `{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":%d,"dur":2,"args":{"correlation":%d}},`, 50*i+5, i)
			fmt.Fprintf(to, `{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":20,"args":{"device":0,"correlation":%d}},`, 50*i+10, i)
		}
		return b.String() + kernels.String()
	}
	full, apart := whole(6, false), whole(6, true)
	upTo := func(kernel int) string {
		return apart[:strings.Index(apart, fmt.Sprintf(`"ts":%d,"dur":20`, 50*kernel+10))]
	}
	for _, c := range []struct {
		name  string
		text  string
		steps int // 0: it is refused
	}{
		{"behind the last event", full, 6},
		{"in the last kernel", full[:len(full)-40], 5},
		{"in the middle", full[:strings.Index(full, `"correlation":7}`)], 3},
		{"before the first kernel", full[:strings.Index(full, `"cuda_runtime"`)], 6}, // no GPU is known
		{"in the first step", full[:60], 0},
		{"in the fourth step's kernels", upTo(7), 3},
		{"in the first step's kernels", upTo(1), 0},
		{"before any kernel of a second step", full[:strings.Index(full, `"correlation":2}`)], 0},
	} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = z.Write([]byte(c.text))
		_ = z.Flush()
		for i, in := range []io.Reader{strings.NewReader(c.text), &packed} { // the second has no end of gzip's
			s, err := Import(context.Background(), in, "x")
			switch {
			case c.steps == 0 && (err == nil || !strings.Contains(err.Error(), "it ends too soon")):
				t.Errorf("%s, %d: %v", c.name, i, err)
			case c.steps > 0 && (err != nil || len(s.Recent) != c.steps || !strings.Contains(s.Notes[0].Text, "the trace breaks off after")):
				t.Errorf("%s, %d: %v, %+v", c.name, i, err, s)
			}
		}
	}
}

func TestBomb(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{"traceEvents":["`))
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for range 200 {
		_, _ = z.Write(spaces)
	}
	_ = z.Close()
	_, err := Import(context.Background(), &packed, "bomb.gz")
	if err == nil || !strings.Contains(err.Error(), "as no trace does") {
		t.Errorf("a bomb is told as %v", err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Import(ctx, strings.NewReader("{}"), "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
