package device

import "testing"

func TestDatasheetOf(t *testing.T) {
	for name, want := range map[string]float64{
		"NVIDIA H100 80GB HBM3": 989.4e12, "NVIDIA H100 PCIe": 756e12, "NVIDIA A100-SXM4-80GB": 312e12, "NVIDIA H200": 989.4e12,
		"NVIDIA GeForce RTX 4090": 165.2e12, "Tesla T4": 0, "NVIDIA H100 80GB HBM3 MIG 1g.10gb": 0, "NVIDIA H100 NVL": 0, "cpu (AMD EPYC, 2 threads)": 0,
	} {
		if p := DatasheetOf(name); p.FLOPs["bf16"] != want || want > 0 && p.From == "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if DatasheetOf("Tesla T4").FLOPs["fp16"] != 65e12 {
		t.Error("a T4 has fp16")
	}
}
