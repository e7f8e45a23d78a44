package report

import (
	"reflect"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/report/markup"
	"dev.gpustall/engine/trace"
)

// A session's texts come from outside: names of files, devices and ops, notes, the values
// of settings, the command line. None may act on the reader's terminal, on the layout of
// the markdown, or as a formula of a spreadsheet. So every writer of a report works on a
// copy. plain removes control characters and excess length from all texts, and escaped
// also escapes what has a meaning in markdown. markup.CSV quotes formulas.

// plain returns s and o with every text as one printable line.
func plain(s *trace.Snapshot, o Options) (*trace.Snapshot, Options) {
	return rewrite(s, units.Line), rewrite(o, units.Line)
}

// escaped returns s and o with every text as one line that shows in markdown as it is.
func escaped(s *trace.Snapshot, o Options) (*trace.Snapshot, Options) {
	s, o = plain(s, o)
	e := rewrite(s, markup.Text)
	e.Meta.Command = s.Meta.Command // shown as code, in which nothing needs escaping
	return e, rewrite(o, markup.Text)
}

// rewrite returns v with every text in it replaced by f of it. It copies what holds
// texts and shares the rest.
func rewrite[T any](v T, f func(string) string) T {
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	rewriteInto(out, reflect.ValueOf(v), f)
	return out.Interface().(T)
}

func rewriteInto(dst, src reflect.Value, f func(string) string) {
	dst.Set(src)
	if !hasText(src.Type()) {
		return
	}
	switch src.Kind() {
	case reflect.String:
		dst.SetString(f(src.String()))
	case reflect.Pointer:
		if !src.IsNil() {
			dst.Set(reflect.New(src.Type().Elem()))
			rewriteInto(dst.Elem(), src.Elem(), f)
		}
	case reflect.Struct:
		for i := range src.NumField() {
			if src.Type().Field(i).IsExported() {
				rewriteInto(dst.Field(i), src.Field(i), f)
			}
		}
	case reflect.Slice:
		if !src.IsNil() {
			dst.Set(reflect.MakeSlice(src.Type(), src.Len(), src.Len()))
		}
		for i := range src.Len() {
			rewriteInto(dst.Index(i), src.Index(i), f)
		}
	case reflect.Array:
		for i := range src.Len() {
			rewriteInto(dst.Index(i), src.Index(i), f)
		}
	case reflect.Map:
		if !src.IsNil() {
			dst.Set(reflect.MakeMapWithSize(src.Type(), src.Len()))
		}
		for it := src.MapRange(); it.Next(); {
			k, v := reflect.New(src.Type().Key()).Elem(), reflect.New(src.Type().Elem()).Elem()
			rewriteInto(k, it.Key(), f)
			rewriteInto(v, it.Value(), f)
			dst.SetMapIndex(k, v)
		}
	}
}

// hasText reports whether values of a type may hold texts. Types with only numbers, such
// as steps and spans, need no copy, and there are very many of those.
func hasText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return hasText(t.Elem())
	case reflect.Map:
		return hasText(t.Key()) || hasText(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && hasText(f.Type) {
				return true
			}
		}
	}
	return false
}
