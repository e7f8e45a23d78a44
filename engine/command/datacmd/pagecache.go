package datacmd

import (
	"context"
	"errors"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/host"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/trace"
)

// mostFiles is how many files are asked for their pages in the page cache. Each takes a few 10
// us.
const mostFiles = 4096

// PageCache returns what the page cache holds of a data set. With drop it empties the page cache
// of the data set first. It returns nil if that is unknown, or if the data is not a file of this
// machine.
func PageCache(ctx context.Context, path string, drop bool) (*trace.Cached, error) {
	if path == "" || !cli.Exists(path) {
		if drop {
			return nil, cli.Refuse("--drop-cache", "the data is not in a file of this machine", "leave it out")
		}
		return nil, nil
	}
	if drop {
		switch err := host.DropPageCache(ctx, path); {
		case errors.Is(err, errors.ErrUnsupported):
			return nil, cli.Refuse("--drop-cache", "this system cannot be asked to", "leave it out, and restart the machine for a cold run")
		case err != nil:
			return nil, errs.File(err, "drop from the page cache", path, "leave --drop-cache out")
		}
	}
	c, known := host.ReadPageCache(ctx, path, mostFiles)
	if !known {
		return nil, nil
	}
	return &trace.Cached{Kept: c.Kept, Of: c.Of, Files: c.Files, More: c.More, Dropped: drop}, nil
}
