package rows

import (
	"math"
	"strconv"
	"strings"

	"dev.gpustall/engine/trace"
)

// predictionFields returns the numbers of a prediction by their names in the file.
func predictionFields(p *trace.Prediction) map[string]*float64 {
	return map[string]*float64{
		"base": &p.Base, "rate": &p.Rate, "lo": &p.Lo, "hi": &p.Hi,
		"data": &p.Data, "data_lo": &p.DataLo, "data_hi": &p.DataHi, "others": &p.Others,
	}
}

// predictionNames are the names of the fields in the order in which they are written.
var predictionNames = [...]string{"base", "rate", "lo", "hi", "data", "data_lo", "data_hi", "others"}

// PredictionText writes a prediction as "base 310.5 rate 402 lo 380 hi 430 …"; it is empty where
// there is none.
func PredictionText(p *trace.Prediction) string {
	if !p.Made() {
		return ""
	}
	var b []byte
	fields := predictionFields(p)
	for _, name := range predictionNames {
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(append(b, name...), ' ')
		b = strconv.AppendFloat(b, *fields[name], 'g', -1, 64)
	}
	return string(b)
}

// ParsePrediction reads what PredictionText wrote. It ignores numbers with names that this program
// does not know. From any other text it returns no prediction.
func ParsePrediction(text string) (p trace.Prediction) {
	f := strings.Fields(text)
	if len(f)%2 != 0 {
		return p
	}
	fields := predictionFields(&p)
	for ; len(f) > 0; f = f[2:] {
		v, err := strconv.ParseFloat(f[1], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return trace.Prediction{}
		}
		if to := fields[f[0]]; to != nil {
			*to = v
		}
	}
	return p
}
