package summary

import (
	"dev.gpustall/engine/analysis/stats"
	"dev.gpustall/engine/batch/sweep"
)

// Sweeps is a sweep.Comparison as JSON.
type Sweeps struct {
	Type    string         `json:"type"`
	A       string         `json:"a"`
	B       string         `json:"b"`
	Margin  number         `json:"margin"`
	Configs []sweepsConfig `json:"settings"`
}

type sweepsConfig struct {
	Name       string `json:"name"`
	A          number `json:"a_samples_per_s"`
	B          number `json:"b_samples_per_s"`
	Throughput Change `json:"throughput"`
	Busy       Change `json:"busy_per_sample"`
}

// SweepsOf returns a comparison of sweeps as JSON.
func SweepsOf(c *sweep.Comparison) Sweeps {
	out := Sweeps{Type: "sweep_comparison", A: c.Names[0], B: c.Names[1], Margin: stats.DefaultMargin}
	for i := range c.Pairs {
		p := &c.Pairs[i]
		out.Configs = append(out.Configs, sweepsConfig{p.Name, number(p.A.Rate.Value), number(p.B.Rate.Value), ChangeOf(&p.Throughput), ChangeOf(&p.Busy)})
	}
	return out
}
