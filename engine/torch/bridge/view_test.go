//go:build linux

package bridge

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"dev.gpustall/engine/analysis/attribution"
	"dev.gpustall/engine/trace"
)

// TestAsked: other goroutines may ask about the training at any time, also before its first batch and
// while messages change what is known of it.
func TestAsked(t *testing.T) {
	b, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	script := exec.Command("sleep", "1000") // rings of a process that has ended are closed
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = script.Process.Kill()
		_ = script.Wait()
	}()
	pid := script.Process.Pid
	mail, err := os.Create(filepath.Join(b.shared, fmt.Sprintf("messages-%d", pid)))
	if err != nil {
		t.Fatal(err)
	}
	defer mail.Close()
	say := func(kind string, fields map[string]any) {
		line := map[string]any{"type": kind, "t": monotonic()}
		for name, value := range fields {
			line[name] = value
		}
		text, err := json.Marshal(line)
		if err == nil {
			_, err = fmt.Fprintf(mail, "%s\n", text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	var asking sync.WaitGroup
	quit := make(chan struct{})
	end := sync.OnceFunc(func() { close(quit); asking.Wait() })
	defer end()
	for _, ask := range []func(){func() { b.GPU() }, func() { b.Did() }, func() { b.Foresee(nil) }} {
		asking.Go(func() {
			for {
				select {
				case <-quit:
					return
				case <-time.After(time.Millisecond):
					ask()
				}
			}
		})
	}

	b.Watch()
	say("hello", map[string]any{"pid": pid, "rank": -1, "world": -1})
	say("loader", map[string]any{"trains": true, "knobs": map[string]int{"num_workers": 1, "prefetch_factor": 2}})
	w := newWriter(t, b.shared, fmt.Sprintf("ring-%d-0", pid), roleLoop, pid, -1)
	now := monotonic()
	w.write(record{Kind: kindNext, Start: now, End: now + 1, Flags: flagTrain})
	<-b.First()
	recorder := trace.NewRecorder(b.Clock, 0)
	c := trace.NewCollector(recorder, trace.NewSession(trace.Meta{}), attribution.NewAnalyzer(0), nil)
	b.Record(recorder)
	c.Start()
	for i := range 5 {
		say("hello", map[string]any{"pid": pid, "rank": -1, "world": -1})
		say("batch", map[string]any{"tensors": 2, "bytes": i})
		say("device", map[string]any{"cuda": "NVIDIA H100", "uuid": fmt.Sprint("0000-", i)})
		now = monotonic()
		w.write(record{Kind: kindNext, Start: now, End: now + 1, Flags: flagTrain, Step: int32(i + 1), Batch: int32(i + 1)})
		<-b.Polled
		<-b.Polled
	}
	b.Stop()
	if err := c.Stop(trace.Outcome{Status: "finished"}); err != nil {
		t.Fatal(err)
	}
	if uuid, used := b.GPU(); uuid != "0000-4" || !used {
		t.Errorf("the GPU is %q, used %v", uuid, used)
	}
}
