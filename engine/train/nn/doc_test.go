package nn_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dev.gpustall/engine/train/nn"
)

// TestDocument keeps the layer tables of docs/dev/nn.md true.
func TestDocument(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "dev", "nn.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	for _, c := range []struct {
		model string
		side  int
	}{{"cnn", 32}, {"resnet18", 32}} {
		m := newModel(t, c.model, nn.Shape{H: c.side, W: c.side, C: 3}, 10)
		if table := layerTable(m); !strings.Contains(doc, table) {
			t.Errorf("docs/dev/nn.md lacks this table of %s on %s:\n%s", c.model, m.In, table)
		}
	}
}

// layerTable sums the layers by the first part of their names.
func layerTable(m *nn.Model) string {
	var rows []nn.Layer
	for _, l := range m.Layers() {
		l.Name, _, _ = strings.Cut(l.Name, ".")
		if n := len(rows) - 1; n >= 0 && rows[n].Name == l.Name {
			rows[n].Out = l.Out
			rows[n].Params += l.Params
			rows[n].FLOPs += l.FLOPs
			continue
		}
		rows = append(rows, l)
	}
	var s strings.Builder
	s.WriteString("| layer | output HxWxC | parameters | MFLOP |\n|---|---|---:|---:|\n")
	for _, l := range rows {
		fmt.Fprintf(&s, "| %s | %s | %d | %.2f |\n", l.Name, l.Out, l.Params, l.FLOPs/1e6)
	}
	fmt.Fprintf(&s, "| **sum** | | **%d** | **%.1f** |\n", m.NumParams(), m.FLOPs()/1e6)
	return s.String()
}
