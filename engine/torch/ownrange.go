package torch

import (
	"slices"
	"strings"

	"dev.gpustall/engine/trace"
)

// ownRange is the time within a range that the user named, for example by
// record_function("load_batch").
type ownRange struct {
	pile
	thread int64
}

// maxOwn is how many names of such ranges are kept.
const maxOwn = 64

// named stores a range whose name says that it loads data.
func (r *recording) named(e *event) {
	if !e.annotated || !isLoading(string(e.name)) {
		return
	}
	o := r.own[string(e.name)]
	switch {
	case o == nil && len(r.own) == maxOwn:
		return
	case o == nil:
		if r.own == nil {
			r.own = map[string]*ownRange{}
		}
		o = &ownRange{thread: e.tid}
		r.own[string(e.name)] = o
	}
	if o.thread == e.tid && len(o.spans) < maxApart {
		o.add(e.at)
	}
}

// isLoading reports whether a name says that data is loaded. One of its words must say so, and no
// word may name something else that is loaded, such as a model.
func isLoading(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return c < 'a' || c > 'z' })
	for _, w := range words {
		switch strings.TrimSuffix(w, "s") {
		case "model", "checkpoint", "ckpt", "state", "weight", "param", "parameter", "optimizer", "fsdp", "cache", "kernel":
			return false
		}
	}
	return slices.ContainsFunc(words, func(w string) bool {
		switch w {
		case "load", "loading", "loader", "dataload", "dataloading", "dataloader", "loaddata", "loadbatch", "fetch", "fetching":
			return true
		}
		return false
	})
}

// ownLoading returns the range that takes longest while only the host works, of the ranges in which
// the loop loads data itself. Ranges of other threads do not hold up the loop, so they do not count.
func (r *recording) ownLoading(a *account, all int64) (best trace.ProfiledRange) {
	host := merged(slices.Concat(a.roles[trace.RoleRuntime], a.roles[trace.RoleCPU], a.roles[trace.RoleOther]))
	for name, o := range r.own {
		share := float64(o.ranges().and(host).length()) / float64(max(1, all))
		if o.thread == r.loop && (share > best.Share || share == best.Share && name < best.Name) {
			best = trace.ProfiledRange{Name: name, Share: share}
		}
	}
	return best
}
