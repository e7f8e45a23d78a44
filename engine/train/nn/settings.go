package nn

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"dev.gpustall/engine/base/errs"
)

// setting is a number of a T, such as lr in "adam,lr=0.01", and its default.
type setting[T any] struct {
	name    string
	value   float64
	field   func(*T) *float64
	allowed limits
}

type settings[T any] []setting[T]

// limits are what a setting may be.
type limits struct {
	most float64 // itself excluded; 0: no limit
	zero bool    // 0 is allowed
}

var (
	positive = limits{}
	atLeast0 = limits{zero: true}
	fraction = limits{zero: true, most: 1}
)

func (ss settings[T]) defaults(of *T) {
	for i := range ss {
		*ss[i].field(of) = ss[i].value
	}
}

// list lists all settings with their defaults, as they are written.
func (ss settings[T]) list() []string {
	var out []string
	for _, s := range ss {
		out = append(out, s.name+"="+number(s.value))
	}
	return out
}

// write appends the settings that are not the defaults.
func (ss settings[T]) write(to []string, of *T) []string {
	for i := range ss {
		if v := *ss[i].field(of); v != ss[i].value {
			to = append(to, ss[i].name+"="+number(v))
		}
	}
	return to
}

// read parses settings that are separated by commas. Those named in others are passed to
// other. The error is an errs.Reason that names the word.
func (ss settings[T]) read(what, text string, into *T, others []string, other func(key, value string) error) error {
	seen := map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		i := slices.IndexFunc(ss, func(s setting[T]) bool { return s.name == key })
		switch {
		case len(ss)+len(others) == 0:
			return errs.Reason(fmt.Sprintf("%s has no settings, and there is %q", what, word), "leave it away")
		case !ok:
			return errs.Reason(fmt.Sprintf("%q is no setting", word), "write NAME=VALUE with one of "+ss.names(others))
		case seen[key]:
			return errs.Reason(key+" is there twice", "say it once")
		case slices.Contains(others, key):
			if err := other(key, value); err != nil {
				return err
			}
		case i < 0:
			return errs.Reason(fmt.Sprintf("%s has no setting %q", what, key), "it takes "+ss.names(others))
		default:
			v, err := ss[i].allowed.read(key, value)
			if err != nil {
				return err
			}
			*ss[i].field(into) = v
		}
		seen[key] = true
	}
	return nil
}

func (ss settings[T]) names(others []string) string {
	var out []string
	for _, s := range ss {
		out = append(out, s.name)
	}
	return errs.Choice(append(out, others...))
}

// read parses a number. The error is an errs.Reason that names key.
func (l limits) read(key, value string) (float64, error) {
	v, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		return 0, errs.Reason(fmt.Sprintf("%s=%s is not a number", key, value), "write one as in 0.001 or 3e-4")
	case v < 0 || v == 0 && !l.zero || l.most > 0 && v >= l.most:
		return 0, errs.Reason(fmt.Sprintf("%s=%s is out of range", key, value), "choose "+l.String())
	}
	return v, nil
}

func (l limits) String() string {
	switch {
	case l.most > 0 && l.zero:
		return fmt.Sprintf("0 or more, and less than %g", l.most)
	case l.most > 0:
		return fmt.Sprintf("more than 0, and less than %g", l.most)
	case l.zero:
		return "0 or more"
	}
	return "more than 0"
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
