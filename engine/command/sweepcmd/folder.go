package sweepcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/batch/sweep"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/command/summary"
)

// Report writes the report of a sweep, made of its sessions.
func Report(f sweep.Folder, format string, out *cli.Output) error {
	r, err := sweep.Load(f)
	if err != nil {
		return err
	}
	formats := map[string]func(io.Writer) error{"csv": r.CSV, "png": r.Sheet().PNG}
	if format == "markdown" || format == "html" {
		d, err := r.Document()
		if err != nil {
			return fmt.Errorf("draw the sweep in %s: %w", f, err)
		}
		formats["markdown"], formats["html"] = d.Markdown, d.HTML
	}
	write := formats[format]
	if write == nil {
		return cli.Refuse("--format "+format, "a sweep has no timeline of its own", "name one of the sessions in "+f.Path("sessions"))
	}
	return out.Write("the report", write)
}

// Compare compares two sweeps. It calls judge with each setting that both have.
func Compare(dirs []string, asJSON bool, out *cli.Output, judge func(config string, c *stats.Change, memory [2]int64) error) error {
	var sides [2]*sweep.Results
	for i, dir := range dirs {
		var err error
		if sides[i], err = sweep.Load(sweep.Folder(dir)); err != nil {
			return err
		}
	}
	c, err := sweep.Compare(sides[0], sides[1], dirs[0], dirs[1])
	if err != nil {
		return err
	}
	write := c.Markdown
	if asJSON {
		write = func(w io.Writer) error { return json.NewEncoder(w).Encode(summary.SweepsOf(c)) }
	}
	if err := out.Write("the comparison", write); err != nil {
		return err
	}
	var worse []error
	for i := range c.Pairs {
		p := &c.Pairs[i]
		if err := judge(p.Name, &p.Throughput, [2]int64{p.A.Memory, p.B.Memory}); err != nil {
			worse = append(worse, err)
		}
	}
	return errors.Join(worse...)
}
