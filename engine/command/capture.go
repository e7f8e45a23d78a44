//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/summary"
	"dev.gpustall/engine/command/watch"
	"dev.gpustall/engine/torch"
	"dev.gpustall/engine/torch/bridge"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// captures records a few steps under PyTorch's profiler whenever the user asks. Each capture
// becomes a session of its own beside the training's. The times of its operators are added to the
// training's session.
type captures struct {
	of      *recording // the training's
	control *bridge.Control
	meta    *trace.Meta // the training's

	wait sync.WaitGroup
	mu   sync.Mutex
	busy bool
	n    int
	rows map[capturedRow]trace.OpTime
}

// capturedRow is the key of operator times that are added up over captures.
type capturedRow struct {
	segment              int32
	name, kernel, phased string
}

// ask starts a capture.
func (c *captures) ask() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy {
		return errors.New("a capture is under way: it takes a few steps, and then some time to read")
	}
	c.busy = true
	c.control.Capture()
	return nil
}

// came takes a finished capture. It reads it in a goroutine that wait waits for, and returns at
// once.
func (c *captures) came(got bridge.Captured) {
	c.wait.Go(func() {
		defer watch.Recover(c.of.recorder, "read the captured steps")
		err := c.read(got)
		if err != nil {
			c.of.recorder.Note("warn", "no steps were captured: "+err.Error())
		}
		c.mu.Lock()
		c.busy = false
		c.mu.Unlock()
	})
}

// read makes a session of a capture.
func (c *captures) read(got bridge.Captured) error {
	if got.Error != "" {
		return errors.New(got.Error)
	}
	f, err := os.Open(got.Path)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(got.Path) }()
	defer f.Close()
	snap, err := torch.Import(context.Background(), f, units.Counted(got.Steps, "step", "steps")+" of "+c.of.id())
	if err != nil {
		return err
	}
	c.n++
	file := cli.UnusedName(fmt.Sprintf("%s-capture-%d", strings.TrimSuffix(c.of.file, store.Ext), c.n), store.Ext)
	snap.Meta.Version, snap.Meta.ID, snap.Meta.Emulated = c.meta.Version, baseName(file), c.meta.Emulated
	if err := store.Save(file, trace.Restore(snap)); err != nil {
		return err
	}
	c.add(slices.Clone(snap.Ops))
	c.of.recorder.Note("info", fmt.Sprintf("captured %s: %s; gpustall report %s tells more",
		units.Counted(int(snap.Meta.Profile.Count), "step", "steps"), summary.Showed(snap.Meta.Profile), file))
	return nil
}

// add adds operator times to the current segment's.
func (c *captures) add(rows []trace.OpTime) {
	segments := c.of.session.Snapshot(0, 0).Segments
	if c.rows == nil {
		c.rows = map[capturedRow]trace.OpTime{}
	}
	for i := range rows {
		r := rows[i]
		r.Segment = segments[len(segments)-1].Index
		key := capturedRow{r.Segment, r.Name, r.Variant, r.Phase}
		if old, ok := c.rows[key]; ok {
			r.ID, r.Calls, r.Total = old.ID, r.Calls+old.Calls, r.Total+old.Total
			r.Min, r.Max = min(r.Min, old.Min), max(r.Max, old.Max)
		} else {
			r.ID = uint32(len(c.rows) + 1)
		}
		c.rows[key] = r
		rows[i] = r
	}
	c.of.recorder.Ops(rows)
}
