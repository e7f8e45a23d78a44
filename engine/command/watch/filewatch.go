package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"dev.gpustall/engine/base/timer"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/trace"
)

// watchPeriod is how often the watch looks for the file.
const watchPeriod = time.Second

// File watches the file of the session. If it is removed or replaced during the run, a note says
// so once: what is written after that is lost.
type File struct{ task *Task }

// WatchFile starts the watch. The caller must call Stop.
func WatchFile(r *trace.Recorder, path string) *File {
	was, err := os.Stat(path)
	return &File{Go(r, "watch the session file", func(quit <-chan struct{}) {
		if err != nil {
			r.Note("warn", lostFile(path, err))
			return
		}
		timer.Repeat(quit, watchPeriod, func() bool {
			is, err := os.Stat(path)
			if err == nil && !os.SameFile(was, is) {
				err = errReplaced
			}
			lost := errors.Is(err, errReplaced) || errors.Is(err, fs.ErrNotExist)
			if lost {
				r.Note("warn", lostFile(path, err))
			}
			return !lost
		})
	})}
}

var errReplaced = errors.New("another file took its name")

// lostFile says that the file of the session is gone.
func lostFile(path string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("it was removed")
	}
	return fmt.Sprintf("keep session file %s: %v during the run; the run goes on, but nothing of it can be replayed; export the report before it ends", path, err)
}

// Stop ends the watch. It waits only briefly, because a file system may hang.
func (w *File) Stop() {
	_ = cli.Briefly(w.task.Stop)
}
