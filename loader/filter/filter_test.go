package filter

import (
	"errors"
	"math"
	"strings"
	"testing"

	"dev.gpustall/loader/parquet"
)

func table() *parquet.Table {
	return &parquet.Table{Rows: 4, Columns: []parquet.Column{
		{Name: "label", Kind: parquet.Int, Ints: []int64{0, 5, 10, 15}},
		{Name: "score", Kind: parquet.Float, Floats: []float64{0.5, 1, math.NaN(), 2}},
		{Name: "class", Kind: parquet.Text, Texts: []string{"cat", "dog", "it's", ""}, Null: []bool{false, false, false, true}},
		{Name: "good", Kind: parquet.Bool, Ints: []int64{1, 0, 1, 0}},
	}}
}

func TestRows(t *testing.T) {
	for text, want := range map[string]string{
		"label<10": "1100", "label <= 10 and label != 5": "1010", "label=5 or label==15": "0101", "not label > 4.5": "1000",
		"class = 'cat'": "1000", `class = "it's"`: "0010", "class <> 'cat'": "0110", "not class = 'cat'": "0111", "class not in ('cat', 'dog')": "0010",
		"label in (0, 15)": "1001", "good and label < 10": "1000", "NOT good": "0101", "good = false": "0101",
		"score >= 1": "0101", "score != 1": "1011", "label > -1 and (score < 1 or class='dog') and not (label=0)": "0100", "label < 1e1": "1100",
		"label=5 or label=10 and good": "0110",
	} {
		rows, err := Rows(text, table())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got strings.Builder
		for _, r := range rows {
			got.WriteString(map[bool]string{true: "1", false: "0"}[r])
		}
		if got.String() != want {
			t.Errorf("%s: %s, want %s", text, got.String(), want)
		}
		if err := Check(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPointed(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "^ it ends where a column's name should be",
		"label":            "     ^ there is no comparison",
		"label < 10 label": "           ^ there is \"label\" where it could end",
		"label < ":         "        ^ it ends where a value should be",
		"label < ten":      "        ^ \"ten\" is no value",
		"lable < 10":       "^ there is no column \"lable\"; choose one of label, score, class, good",
		"label < 'x'":      "        ^ column label holds numbers; compare it with a number",
		"class = 3":        "        ^ column class holds text; put what it is compared with in quotes",
		"(label < 3":       "^ this bracket is not closed",
		"label in 3":       "         ^ in has no list",
		"label in (3":      "         ^ this list does not end",
		"class = 'cat":     "        ^ a text begins and does not end",
		"ä = 1 and":        "^ there is no column",
		"label not 3":      "          ^ not stands without in",
		"and":              "^ there is \"and\" where a column's name should be",
		"label # 3":        "      ^ there is no comparison",
	} {
		_, err := Rows(text, table())
		var at *SyntaxError
		if !errors.As(err, &at) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		caret := want[:strings.IndexByte(want, '^')+1]
		line := at.Caret()[len(text)+1:]
		if line != caret || !strings.Contains(at.Reason+"; "+at.Hint, strings.TrimSpace(want[len(caret):])) {
			t.Errorf("%q: %q %s; %s, want %q", text, line, at.Reason, at.Hint, want)
		}
	}
	if err := Check(strings.Repeat("(", 1000)); err == nil {
		t.Error("no bound")
	}
}

func FuzzRows(f *testing.F) {
	f.Add("label < 10 and class in ('cat', \"dog\") or not good")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := Rows(text, table())
		var at *SyntaxError
		if err != nil && (!errors.As(err, &at) || at.At > len(text)) {
			t.Errorf("%v", err)
		}
	})
}
