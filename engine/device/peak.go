package device

import "strings"

// Peaks are the most FLOP/s that a device reaches by type ("bf16"), as its maker says: dense, at
// the boost clock.
type Peaks struct {
	FLOPs map[string]float64
	From  string // the source
}

const tera = 1e12

// datasheets are NVIDIA's: A100 (1758950-r4), H100 (2023), H200 (2024), T4 (2019), and the
// Ada architecture's whitepaper for the RTX 4090 (fp16 and bf16 with fp32 sums). The first
// name found in the GPU's own wins.
var datasheets = []struct {
	name, title string
	peaks       map[string]float64
}{
	{"H100 PCIe", "H100 PCIe", map[string]float64{"bf16": 756 * tera, "fp16": 756 * tera, "tf32": 378 * tera, "fp32": 51 * tera}},
	{"H100 80GB HBM3", "H100 SXM", map[string]float64{"bf16": 989.4 * tera, "fp16": 989.4 * tera, "tf32": 494.7 * tera, "fp32": 67 * tera}},
	{"H200", "H200 SXM", map[string]float64{"bf16": 989.4 * tera, "fp16": 989.4 * tera, "tf32": 494.7 * tera, "fp32": 67 * tera}},
	{"A100", "A100", map[string]float64{"bf16": 312 * tera, "fp16": 312 * tera, "tf32": 156 * tera, "fp32": 19.5 * tera}},
	{"RTX 4090", "RTX 4090", map[string]float64{"bf16": 165.2 * tera, "fp16": 165.2 * tera, "tf32": 82.6 * tera, "fp32": 82.6 * tera}},
	{"Tesla T4", "T4", map[string]float64{"fp16": 65 * tera, "fp32": 8.1 * tera}},
}

// DatasheetOf finds the peaks of a GPU by its name. It returns none for an unknown GPU, and for a
// part of a GPU (MIG), of which no datasheet tells.
func DatasheetOf(name string) Peaks {
	if strings.Contains(name, "MIG ") {
		return Peaks{}
	}
	for _, d := range datasheets {
		if strings.Contains(name, d.name) {
			return Peaks{d.peaks, "datasheet of the " + d.title}
		}
	}
	return Peaks{}
}
