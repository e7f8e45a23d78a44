package knob

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"dev.gpustall/engine/base/errs"
)

// Text is a setting that is neither a number, a switch nor a time.
type Text interface {
	String() string                  // what UnmarshalText reads
	UnmarshalText(text []byte) error // its error is an errs.Reason, because the table names knob and value
}

// typeOf returns the spec's type for a field. A Text is an "enum" where the spec lists all its
// values.
func typeOf(field any, s *Spec) string {
	switch field.(type) {
	case *int:
		return "int"
	case *bool:
		return "bool"
	case *time.Duration:
		return "duration"
	case Text:
		if len(s.Values) > 0 && s.Type != "text" {
			return "enum"
		}
		return "text"
	}
	panic(fmt.Sprintf("knob: %s lies in a %T, which is nothing that a knob can be", s.Name, field))
}

// format returns the value of a field as text.
func format(field any) string {
	switch p := field.(type) {
	case *int:
		return strconv.Itoa(*p)
	case *bool:
		return Switch(*p)
	case *time.Duration:
		return Duration(*p)
	}
	return field.(Text).String()
}

// read sets a field to what text says. After an error the field is as before, or, for a Text, as
// its UnmarshalText left it.
func read(s *Spec, field any, text string) (err error) {
	switch p := field.(type) {
	case *int:
		return into(p)(parseInt(s, text))
	case *bool:
		return into(p)(ParseSwitch(text))
	case *time.Duration:
		return into(p)(parseDuration(s, text))
	}
	return field.(Text).UnmarshalText([]byte(text))
}

func into[T any](p *T) func(T, error) error {
	return func(v T, err error) error {
		if err == nil {
			*p = v
		}
		return err
	}
}

// Canonical returns text as the knob writes its value, or an error that names the knob. It checks
// what the spec says; the knob itself may refuse more.
func Canonical(s *Spec, text string) (string, error) {
	switch s.Type {
	case "int":
		return canonical(s, text, new(int))
	case "bool":
		return canonical(s, text, new(bool))
	case "duration":
		return canonical(s, text, new(time.Duration))
	}
	return text, nil
}

func canonical(s *Spec, text string, field any) (string, error) {
	if err := read(s, field, text); err != nil {
		return "", refuse(s.Name, text, err)
	}
	return format(field), nil
}

// Switch writes a switch: on or off.
func Switch(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// ParseSwitch reads on and off, and whatever Go reads as true and false.
func ParseSwitch(text string) (bool, error) {
	if text == "on" || text == "off" {
		return text == "on", nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, errs.Reason("neither on nor off", "choose one of the two")
	}
	return v, nil
}

func parseInt(s *Spec, text string) (int, error) {
	v, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, outOfRange(s)
	case err != nil:
		return 0, errs.Reason("not a whole number", "choose "+Range(s))
	}
	if s.Max > s.Min && (v < s.Min || v > s.Max) {
		err = outOfRange(s)
	}
	return v, err
}

// Duration writes a time; 0 is off.
func Duration(d time.Duration) string {
	if d == 0 {
		return "off"
	}
	return d.String()
}

// ParseDuration reads off, or a time such as 5ms or 1.5s.
func ParseDuration(text string) (time.Duration, error) {
	if Off(text) {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errs.Reason("not a time", "write it as in 5ms or 1.5s, or off")
	}
	return d, nil
}

func parseDuration(s *Spec, text string) (time.Duration, error) {
	d, err := ParseDuration(text)
	if err == nil && (d < 0 || s.Max > 0 && d > longest(s)) {
		err = outOfRange(s)
	}
	return d, err
}

func longest(s *Spec) time.Duration { return time.Duration(s.Max) * time.Millisecond }

func outOfRange(s *Spec) error { return errs.Reason("out of range", "choose "+Range(s)) }

// Range says which values a knob may have: "0 to 64", "on or off", "fp32, tf32 or bf16".
func Range(s *Spec) string {
	switch {
	case s.Type == "bool":
		return "on or off"
	case s.Type == "enum":
		return Choice(s.Values)
	case s.Type == "text" && len(s.Values) > 0:
		return strings.Join(s.Values, ", ") + " and their settings"
	case s.Type == "duration" && s.Max > 0:
		return "0 to " + longest(s).String()
	case s.Type == "duration":
		return "a time, or off"
	case s.Type == "int" && s.Max > s.Min:
		return fmt.Sprintf("%d to %d", s.Min, s.Max)
	case s.Type == "int":
		return "a whole number"
	}
	return s.Type
}

// Choice is errs.Choice.
func Choice(words []string) string { return errs.Choice(words) }

// refuse names the knob and the value that err refuses.
func refuse(name, text string, err error) error {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r == '"' || !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		text = strconv.Quote(text)
	}
	return errs.Wrap(err, "set", name+"="+text, "")
}
