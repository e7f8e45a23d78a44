package command

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"dev.gpustall/engine/base/knob"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// writeRank writes the session of a rank, which began so long ago and ended a second later. The rank
// waits for data for wait ms of each step of 100 ms.
func writeRank(t *testing.T, path, job string, rank, world int, wait int64, ago time.Duration) {
	t.Helper()
	name := func(count string) string { return "rank_" + strconv.Itoa(rank) + "_" + count }
	began := time.Now().Add(-ago)
	m := trace.Meta{ID: strings.TrimSuffix(filepath.Base(path), store.Ext), Started: began, Model: "train", DeviceKind: "cpu"}
	if world > 0 {
		m.Host = []knob.Setting{
			{Name: trace.JobRanks, Value: strconv.Itoa(world)}, {Name: trace.JobRank, Value: strconv.Itoa(rank)}, {Name: trace.JobName, Value: job},
		}
	}
	st, err := store.Create(path, m)
	if err != nil {
		t.Fatal(err)
	}
	d := &trace.Drained{Now: 6e9, Segments: []trace.Segment{{Reason: "start"}}}
	for i := range int32(60) {
		s := trace.Step{Index: i, Samples: 1, Start: int64(i) * 1e8, End: int64(i+1) * 1e8, Busy: 1e8 - wait*1e6, Wait: wait * 1e6}
		s.Stall[trace.CauseFetch] = wait * 1e6
		d.Steps = append(d.Steps, s)
	}
	for count, v := range map[string]int64{"steps": 59, "wait_ns": 59 * wait * 1e6, "time_ns": 59e8, "body_ns": 59 * (1e8 - wait*1e6), "backward_ns": 59 * (9e7 - wait*1e6)} {
		d.Gauges = append(d.Gauges, trace.GaugePoint{Name: name(count), Point: trace.Point{T: 6e9, V: float64(v)}})
	}
	if err := st.Write(d); err != nil {
		t.Fatal(err)
	}
	if err := st.Finish(trace.Outcome{Status: "finished", Ended: 6e9}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, began.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
}

// TestReportFleet: the report of a folder is about the ranks of the run that was written last. The report of
// files is about these.
func TestReportFleet(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name+store.Ext) }
	writeRank(t, file("now0"), "j", 0, 3, 2, time.Minute)
	writeRank(t, file("now1"), "j", 1, 3, 60, time.Minute-3*time.Second)
	writeRank(t, file("before0"), "j", 0, 3, 70, time.Hour) // the same job's name, an hour ago
	writeRank(t, file("other"), "k", 2, 3, 70, time.Minute)
	writeRank(t, file("alone"), "", 0, 0, 70, time.Second)
	if err := os.WriteFile(file("damaged"), []byte("no session"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := t.TempDir()
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string // that it contains
	}{
		"a folder":                       {[]string{dir}, 0, "**The others wait for rank 1:", "2 sessions of other jobs or earlier runs in " + dir + " left out"},
		"what is missing":                {[]string{dir}, 0, "No session tells of rank 2.", ""},
		"files":                          {[]string{file("before0"), file("now1")}, 0, "**The others wait for rank 0:", ""},
		"a table":                        {[]string{dir, "--format", "csv"}, 0, "\n1,,59,0.1", ""},
		"a page":                         {[]string{dir, "--format", "html"}, 0, "</html>", ""},
		"a format of single sessions":    {[]string{dir, "--format", "chrome"}, 2, "", "choose markdown, html or csv, or name one session"},
		"a file that is no rank's":       {[]string{file("now0"), file("alone")}, 2, "", "no session of a distributed training"},
		"a folder without ranks":         {[]string{none}, 1, "", "the folder has no session of a distributed training"},
		"a file that is not there":       {[]string{file("now0"), file("none")}, 1, "", "no such file"},
		"a file that cannot be read":     {[]string{file("now0"), file("damaged")}, 0, "Only rank 0 is known", "the report lacks it"},
		"no file at all":                 {nil, 2, "", "name a session"},
		"a report over one of its files": {[]string{dir, "--output", file("now0")}, 2, "", "it is the session itself"},
	} {
		t.Run(name, func(t *testing.T) {
			r := gpustall(t, append([]string{"report"}, c.args...)...)
			if r.code != c.code || !strings.Contains(r.stdout, c.stdout) || !strings.Contains(strings.Join(strings.Fields(r.stderr), " "), c.stderr) {
				t.Errorf("exit code %d, want %d with %q and %q:\n%s%s", r.code, c.code, c.stdout, c.stderr, r.stdout, r.stderr)
			}
		})
	}
	r := gpustall(t, "compare", dir, dir)
	if said := strings.Join(strings.Fields(r.stdout), " "); r.code != 0 || strings.Count(said, "It is about rank 0 of 3: the others wait for rank 1:") != 2 {
		t.Errorf("compare of two folders: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}
