package torch

import (
	"slices"
	"strings"

	"dev.gpustall/engine/trace"
)

// ownRange is where a range that the user named goes on, by record_function("load_batch") say.
type ownRange struct {
	pile
	thread int64
}

// maxOwn is how many names of such ranges are looked at.
const maxOwn = 64

// named files a range whose name says that it is loading.
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

// isLoading reports whether a name is that of loading data: a word of it is, and none is of what
// else is loaded.
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

// ownLoading is the range of the loop's own loading that takes longest while the host alone was
// at work. What other threads load is beside the loop.
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
