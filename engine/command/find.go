package command

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/command/cli"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store"
)

// latest names the session that was written last.
const latest = "latest"

// awaitSession waits until no session is about to begin in the session folder.
func awaitSession() {
	for told := ""; ; time.Sleep(200 * time.Millisecond) {
		next := starting(cli.SessionDir())
		if next == "" {
			return
		}
		if next != told {
			_ = cli.Say(os.Stderr, "gpustall: waiting for the first batch of %s; ctrl+c ends the wait\n", next)
			told = next
		}
	}
}

// findSession returns the file of a session that the user named: a path, an ID, or "latest".
func findSession(name string) (string, error) {
	if cli.Exists(name) {
		return name, nil
	}
	if err := cli.CheckSessionHome("name a session's file"); err != nil {
		return "", err
	}
	if name == latest {
		if next := starting(cli.SessionDir()); next != "" {
			_ = cli.Say(os.Stderr, "gpustall: latest is of an earlier run: %s has not had its first batch yet\n", next)
		}
		return store.Latest(cli.SessionDir())
	}
	all, err := store.List(cli.SessionDir())
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if s.Meta.ID == name || strings.TrimSuffix(filepath.Base(s.Path), store.Ext) == name {
			return s.Path, nil
		}
	}
	return "", errs.New("open session", name, "no such file, and no session of that name in "+cli.SessionDir(), "gpustall sessions lists them")
}

// splitSession returns the file of a session, and the segment if one is named after a colon.
func splitSession(name string) (path, segment string, err error) {
	session := name
	if at := strings.LastIndexByte(name, ':'); at > 0 && !cli.Exists(name) && isSegment(name[at+1:]) {
		session, segment = name[:at], name[at+1:]
	}
	path, err = findSession(session)
	return path, segment, err
}

// isSegment reports whether name is the name of a segment.
func isSegment(name string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "#"))
	return name == "A" || strings.HasPrefix(name, "#") && err == nil && n >= 0
}

// openSession opens the file of a session, and reports damage of it on standard error.
func openSession(path string) (*trace.Session, error) {
	s, err := store.Open(path)
	if err != nil {
		return nil, err
	}
	complain(os.Stderr, s)
	return s, nil
}

// complain reports damage of a session's file.
func complain(w io.Writer, s snapshotter) {
	for _, text := range s.Snapshot(0, 0).Damage {
		_ = cli.Say(w, "gpustall: %s\n", units.Line(text))
	}
}

// snapshotter is the source of a report.
type snapshotter interface {
	Snapshot(from, to int64) *trace.Snapshot
}

// all returns the whole session.
func all(s snapshotter) *trace.Snapshot { return s.Snapshot(0, 1<<62) }

func baseName(path string) string { return strings.TrimSuffix(filepath.Base(path), store.Ext) }
