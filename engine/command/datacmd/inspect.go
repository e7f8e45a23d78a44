package datacmd

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/flags"
	"dev.gpustall/engine/trace"
	"dev.gpustall/loader"
	"dev.gpustall/loader/source"
	"dev.gpustall/loader/transform"
)

// gpustall data inspect stops at either of these.
const (
	inspectTime    = 3 * time.Second
	inspectSamples = 2000
)

func newInspect() *cobra.Command {
	var images flags.Images
	var stores flags.Stores
	var drop bool
	cmd := &cobra.Command{
		Use:   "inspect PATH",
		Short: "Say what a data set is, and how fast samples of it are read and decoded",
		Long: fmt.Sprintf(`Say what a data set is, and read, decode and transform samples spread over it
on one thread, %s of them or for %g s at the most. Each is read twice: as the
page cache stands, of which it says how much of the data it holds, and again,
when it is there. Of data in an object store (s3://, azblob://) it says how
long reads wait for the first byte.`, units.Count(inspectSamples), inspectTime.Seconds()),
		Example: `  gpustall data inspect PATH
  gpustall data inspect PATH --drop-cache  # read from the disk, not from memory`,
		Args: flags.Exactly(1, "a path"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := images.Check(); err != nil {
				return err
			}
			ctx, got, stop := cli.UntilSignal(cmd.Context(), nil)
			defer stop()
			files, err := stores.Open()
			if err != nil {
				return err
			}
			defer files.Close()
			err = inspect(ctx, args[0], files, images, drop)
			if sig := got(); sig != nil {
				return sig
			}
			return err
		},
	}
	images.Add(cmd.Flags())
	stores.Add(cmd.Flags())
	flags.AddDropCache(cmd.Flags(), &drop)
	return cmd
}

// inspect says what a data set is and tries samples of it. With drop it empties the page cache of
// the data set first.
func inspect(ctx context.Context, path string, files *source.Files, images flags.Images, drop bool) error {
	if err := flags.CheckData(path); err != nil {
		return err
	}
	ds, tf, err := Open(ctx, path, files, images, cli.ProgressTo(os.Stderr))
	if err != nil {
		return err
	}
	defer ds.Close()
	i := loader.InfoOf(ds, tf)
	if err := cli.Say(os.Stdout, "%s", holds(path, ds, tf, i)); err != nil {
		return err
	}
	cached, err := PageCache(ctx, i.Path, drop)
	if err != nil {
		return err
	}
	tried, broken := try(ctx, ds, tf, inspectSamples, inspectTime)
	tried.cached = cached
	if err := cli.Say(os.Stdout, "%s%s", tried.text(i), requested(files.Counts())); err != nil {
		return err
	}
	return broken
}

// holds says what a data set is and how large it is.
func holds(path string, ds loader.Dataset, tf loader.Transform, i loader.Info) string {
	after := "the transform"
	if t, ok := tf.(*transform.Pipeline); ok {
		after = t.String()
	}
	kind := ""
	if i.Synthetic {
		kind = " [synthetic]"
	}
	stored := ""
	if i.Bytes > 0 {
		stored = ", " + units.Prose.Bytes(i.Bytes) + " stored"
	}
	classes := "without classes"
	if n := len(i.Classes); n > 0 {
		classes = "in " + units.Counted(n, "class", "classes")
	}
	form := i.Format
	if c := Contents(ds); c != "" {
		form += " (" + c + ")"
	}
	if s, ok := unwrapped(ds).(interface{ Stored() int64 }); ok {
		stored = fmt.Sprintf(", %s of samples in %s of shards", units.Prose.Bytes(i.Bytes), units.Prose.Bytes(s.Stored()))
	}
	text := fmt.Sprintf("%s%s: %s, %s %s, %s after %s%s\n",
		path, kind, form, units.Counted(i.Samples, "sample", "samples"), classes, i.Shape(), after, stored)
	if i.Doubt != "" {
		text += "look at this: " + i.Doubt + "\n"
	}
	return text
}

// trial is how long some samples took to load on one thread.
type trial struct {
	samples   int
	least     extent // the smallest decoded sample
	most      extent // the largest
	read      stage
	first     stage // the part of read that waits for the first byte from a store
	remote    bool
	decode    stage
	transform stage
	again     stage         // a second read of local files
	cached    *trace.Cached // what the page cache held before; nil if that is unknown
	forwards  bool          // the samples are the first ones of a stream
}

// extent is the size of a decoded sample: frames, rows and columns.
type extent struct{ t, h, w int }

func (d extent) pixels() int { return max(d.t, 1) * d.h * d.w }

func (d extent) String() string {
	s := fmt.Sprintf("%dx%d", d.h, d.w)
	if d.t > 0 {
		s = units.Counted(d.t, "frame", "frames") + " of " + s
	}
	return s
}

// stage is one step of loading: its time, and the bytes that it made.
type stage struct {
	name  string
	took  time.Duration
	bytes int64
}

// try loads samples spread evenly over the data set, or the first ones of a stream. It stops
// after so many samples, after limit, or at a broken sample.
func try(ctx context.Context, ds loader.Dataset, tf loader.Transform, most int, limit time.Duration) (*trial, error) {
	info := loader.InfoOf(ds, tf)
	t := &trial{remote: source.Remote(info.Path), first: stage{name: "first byte"}, read: stage{name: "read"}, decode: stage{name: "decode"},
		transform: stage{name: "transform"}, again: stage{name: "read again"}}
	dst := make([]float32, info.Values())
	_, t.forwards = ds.(*loader.Streamed)
	n := min(most, info.Samples)
	var s loader.Sample
	began := time.Now()
	for i := range n {
		if ctx.Err() != nil || time.Since(began) > limit {
			break
		}
		if s.Index = spread(i, info.Samples); t.forwards {
			s.Index = i
		}
		if err := t.load(ctx, ds, tf, &s, dst); err != nil {
			return t, err
		}
	}
	return t, nil //nolint:nilerr // if it was interrupted, it returns what was measured so far
}

// spread returns the i-th sample to try. No sample comes twice, and however few are tried, they
// are spread over the data set.
func spread(i, samples int) int {
	golden := (math.Sqrt(5) - 1) / 2
	step := max(1, int(golden*float64(samples)))
	for a, b := step, samples; ; a, b = step, samples {
		for b > 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return int(int64(i) * int64(step) % int64(samples))
		}
		step++
	}
}

// load takes one sample through all stages. A panic of a decoder or a transform becomes an error
// that names the sample, as in a training.
func (t *trial) load(ctx context.Context, ds loader.Dataset, tf loader.Transform, s *loader.Sample, dst []float32) (err error) {
	at := &t.read
	defer func() {
		if p := recover(); p != nil {
			err = errs.Reason(fmt.Sprintf("panic: %v", p), "")
		}
		err = errs.Wrap(err, at.name, fmt.Sprintf("sample %d", s.Index), "replace it, or leave it out")
	}()
	s.FirstByte = 0
	start := time.Now()
	if err := ds.Read(ctx, s); err != nil {
		return err
	}
	read := time.Now()
	at = &t.decode
	rng := loader.NewRNG(1, 0, s.Index)
	cropper, _ := tf.(loader.Cropper)
	s.Expect(cropper, rng)
	if err := ds.Decode(s); err != nil {
		return err
	}
	decoded := time.Now()
	at = &t.transform
	tf.Host(s, &rng, dst)
	t.first.add(min(time.Duration(s.FirstByte), read.Sub(start)), 0)
	t.read.add(read.Sub(start), len(s.Raw))
	t.decode.add(decoded.Sub(read), made(s))
	t.transform.add(time.Since(decoded), 4*len(dst))
	t.size(extent{s.T, s.H, s.W})
	if t.remote || t.forwards {
		return nil
	}
	at = &t.again
	start = time.Now()
	if err := ds.Read(ctx, s); err != nil {
		return err
	}
	t.again.add(time.Since(start), len(s.Raw))
	return nil
}

// made returns how many bytes decoding made. It is 0 if the pixels are the stored bytes.
func made(s *loader.Sample) int {
	raw, pixels := s.Raw[:cap(s.Raw)], s.Pixels[:cap(s.Pixels)]
	if len(raw) > 0 && len(pixels) > 0 && &raw[len(raw)-1] == &pixels[len(pixels)-1] {
		return 0
	}
	return len(s.Pixels)
}

func (s *stage) add(took time.Duration, bytes int) {
	s.took += took
	s.bytes += int64(bytes)
}

// size counts a decoded sample.
func (t *trial) size(d extent) {
	if t.samples++; t.samples == 1 {
		t.least, t.most = d, d
	}
	if d.pixels() < t.least.pixels() {
		t.least = d
	}
	if d.pixels() > t.most.pixels() {
		t.most = d
	}
}

// text returns the trial for people.
func (t *trial) text(i loader.Info) string {
	if t.samples == 0 {
		return "no sample was loaded\n"
	}
	size := t.least.String()
	if t.least != t.most {
		size += " to " + t.most.String()
	}
	which := "spread over the set"
	if t.forwards {
		which = "the first ones, since it is read forwards"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s tried, %s, on one thread; they decode to %s%s\n",
		units.Count(t.samples), units.Counted(i.Samples, "sample", "samples"), which, size, t.stored(i))
	all := stage{name: "all"}
	stages := []stage{t.read, t.decode, t.transform}
	for _, s := range stages {
		all.add(s.took, 0)
	}
	for _, s := range append(stages, all, t.again) {
		if s.took == 0 {
			continue
		}
		note := units.Prose.Transfer(float64(s.bytes) / max(s.took, 1).Seconds())
		switch {
		case s.name == t.read.name && t.remote:
			note += fmt.Sprintf("  from the store; %s of the time waits for the first byte", units.Prose.Percent(float64(t.first.took)/float64(max(s.took, 1))))
		case s.name == t.read.name && t.cached != nil:
			note += fmt.Sprintf("  %s: %s of the data was in the page cache", t.cached.State(), units.Prose.Percent(t.cached.Share()))
		case s.name == t.read.name:
			note += "  as the page cache stands"
		case s.name == t.again.name:
			note += "  warm: it was read just before"
		case s.name == all.name:
			note = ""
		case s.bytes == 0:
			note = "stored as it is used"
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %-10s %9s samples/s  %s", s.name, s.rate(t.samples), note), " ") + "\n")
	}
	return b.String()
}

// stored says how large all samples are if the data set does not know. It is an estimate by their
// mean, unless all were read.
func (t *trial) stored(i loader.Info) string {
	switch {
	case i.Bytes > 0 || t.read.bytes == 0:
		return ""
	case t.samples == i.Samples:
		return fmt.Sprintf("; %s stored in all", units.Prose.Bytes(t.read.bytes))
	}
	all := float64(t.read.bytes) / float64(t.samples) * float64(i.Samples)
	return fmt.Sprintf("; ~%s stored in all, by their mean", units.Prose.Bytes(int64(all)))
}

func (s *stage) rate(samples int) string {
	return units.Rate(float64(samples) / max(s.took, 1).Seconds())
}
