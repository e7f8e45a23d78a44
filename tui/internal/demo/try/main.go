// Command try shows the screen on a simulated run, to look at it without
// training anything.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"dev.gpustall/engine/trace"
	"dev.gpustall/tui"
	"dev.gpustall/tui/internal/demo"
)

func main() {
	var (
		ascii  = flag.Bool("ascii", false, "ASCII glyphs")
		replay = flag.Bool("replay", false, "as a replay of 20 s")
		fps    = flag.Int("fps", 10, "frames a second")
		panics = flag.Bool("panic", false, "panic when the report is written")
		fails  = flag.Bool("fail", false, "refuse every knob change")
	)
	flag.Parse()
	start := time.Now()
	run := demo.New(func() int64 { return time.Since(start).Nanoseconds() })
	if *fails {
		run.Fail(errors.New("set prefetch_factor: the queue needs 12 GB of page-locked memory and the limit is 8 MB; raise it with ulimit -l"))
	}
	run.Meta(func(m *trace.Meta) { m.Emulated, m.DeviceKind = false, "cpu" })
	o := tui.Options{
		Source: run, Control: run, FPS: *fps, ASCII: *ascii, Replay: *replay, Baseline: run.SetBaseline,
		Export: func() (string, error) {
			if *panics {
				panic("the printer is on fire")
			}
			time.Sleep(300 * time.Millisecond)
			return "/home/user/.local/state/gpustall/demo.md", nil
		},
	}
	if *replay {
		past := demo.New(nil)
		past.Advance(20e9)
		past.End("finished")
		o.Source, o.Control, o.Baseline = past, nil, past.SetBaseline
	}
	if err := tui.Run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(1)
	}
	fmt.Println("left cleanly")
}
