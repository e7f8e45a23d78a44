// Package store keeps sessions in files, lists them and reads them back.
package store

import (
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"modernc.org/sqlite" // the driver "sqlite", in pure Go
	sqlite3 "modernc.org/sqlite/lib"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store/rows"
)

// Ext is the extension of session files.
const Ext = ".gpustall"

// MaxStoredBytes is the most bytes of packed spans that one file keeps. Beyond it the oldest are
// deleted. Chunks around the start of a segment are kept longer, up to half of the limit. Steps are
// kept for ever.
const MaxStoredBytes = 64 << 20

// Causes and kinds are stored by number in the spans and named here, so that a file still means the
// same after some were added. The table doc holds JSON documents: meta, outcome, drops, baseline
// where one was chosen, and files (where the worst samples lie). It also holds plain numbers: now
// (ns), beat (Unix ms of the last write) and steps (how many were written). An experiment is a JSON
// document too. For crc see checksum.go.
const schema = `
CREATE TABLE doc(key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER) WITHOUT ROWID;
CREATE TABLE names(enum TEXT, id INTEGER, name TEXT NOT NULL, crc INTEGER, PRIMARY KEY(enum, id)) WITHOUT ROWID;
CREATE TABLE segments(idx INTEGER PRIMARY KEY, start INTEGER, "end" INTEGER, first_step INTEGER, reason TEXT,
	transition_steps INTEGER, transition INTEGER, predicted TEXT, by_script INTEGER, crc INTEGER);
CREATE TABLE knobs(segment INTEGER, pos INTEGER, name TEXT, value TEXT, PRIMARY KEY(segment, pos)) WITHOUT ROWID;
CREATE TABLE steps(idx INTEGER PRIMARY KEY, epoch INTEGER, segment INTEGER, batch INTEGER, samples INTEGER,
	correct INTEGER, loss REAL, flags INTEGER, start INTEGER, "end" INTEGER, busy INTEGER, wait INTEGER,
	load INTEGER, copy INTEGER, bytes INTEGER, through INTEGER, stalls TEXT, work TEXT, crc INTEGER);
CREATE TABLE spans(id INTEGER PRIMARY KEY, first INTEGER, last INTEGER, n INTEGER, data BLOB);
CREATE TABLE notes(id INTEGER PRIMARY KEY, t INTEGER, level TEXT, text TEXT, crc INTEGER);
CREATE TABLE gauges(id INTEGER PRIMARY KEY, name TEXT, t INTEGER, v REAL, crc INTEGER);
CREATE TABLE ops(pos INTEGER PRIMARY KEY, segment INTEGER, name TEXT, layer TEXT, phase TEXT, variant TEXT,
	calls INTEGER, total INTEGER, min INTEGER, max INTEGER, flops REAL, bytes REAL, crc INTEGER);
CREATE TABLE experiments(idx INTEGER PRIMARY KEY, value TEXT, crc INTEGER);
CREATE TABLE digest(id INTEGER PRIMARY KEY, data BLOB, crc INTEGER);
`

// File is the file of one session: a SQLite database in WAL mode, to which a
// transaction is added about twice a second. A killed process loses what came
// after the last one.
type File struct {
	db    *sql.DB
	enc   rows.Encoder
	limit int64 // bytes of packed spans
	spans chunks
	steps int64 // in the file
	last  int64 // Index of the last of them; math.MinInt64 before there is one
	sum   rowSum
	meta  trace.Meta

	digest   trace.Digest // of the steps in the file
	digested int64        // how many of them the stored digest counts
	stepFile
	room *os.File // set aside on the disk; see KeepRoom

	closeOnce sync.Once
	closeErr  error
}

// code returns the number that the library gives to an error; 0 where the error is not the
// library's.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff // the other bits say where
	}
	return 0
}

// Create creates the file of a new session, and its folder. It refuses to replace a file.
func Create(path string, m trace.Meta) (*File, error) {
	fail := func(err error) (*File, error) {
		hint := "name a file in a folder that can be written to"
		if code(err) == sqlite3.SQLITE_FULL {
			err, hint = syscall.ENOSPC, "free some space, or name a file elsewhere"
		}
		return nil, errs.Wrap(err, "create session file", path, hint)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // a session names paths, hosts and commands
	if errors.Is(err, fs.ErrExist) {
		return fail(errs.Reason("file already exists", "choose another name").Because(err))
	} else if err != nil {
		return fail(err)
	}
	if err := f.Close(); err != nil {
		return fail(err)
	}
	db, err := openDB(path, "_pragma=busy_timeout(5000)", "_pragma=synchronous(NORMAL)")
	if err != nil {
		return fail(err)
	}
	st := &File{stepFile: stepFile{path: path, mode: "mode=ro"}, db: db, limit: MaxStoredBytes, last: math.MinInt64, meta: m}
	if err := st.initialise(); err != nil {
		return fail(errors.Join(err, db.Close(), os.Remove(path)))
	}
	return st, nil
}

// openDB opens one connection.
func openDB(path string, params ...string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: strings.Join(params, "&")}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// initialise writes the schema and the description of the run before the file enters WAL mode, so
// that it is a session from its first page on.
func (st *File) initialise() error {
	err := st.transact(func(tx *sql.Tx) error {
		if _, err := tx.Exec(fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d;", rows.Application, rows.Schema) + schema); err != nil {
			return err
		}
		for i := range trace.NumCauses {
			if err := st.putName(tx, "cause", i, trace.Cause(i).String()); err != nil {
				return err
			}
		}
		for i := range trace.NumKinds {
			if err := st.putName(tx, "kind", int(i), i.String()); err != nil {
				return err
			}
		}
		if err := st.putDoc(tx, "meta", st.meta); err != nil {
			return err
		}
		if err := st.putDoc(tx, "beat", time.Now().UnixMilli()); err != nil { // who looks now finds it alive
			return err
		}
		return st.putDoc(tx, "outcome", trace.Outcome{Status: "running"})
	})
	if err != nil {
		return err
	}
	_, err = st.db.Exec("PRAGMA journal_mode=WAL")
	return err
}

// transact runs f as one transaction. Nothing of it is written when f fails or panics.
func (st *File) transact(f func(*sql.Tx) error) error {
	tx, err := st.db.Begin()
	if err != nil {
		return err
	}
	open := true
	defer func() {
		if open { // f panicked: free the only connection
			_ = tx.Rollback()
		}
	}()
	err = f(tx)
	open = false
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		_, _ = st.db.Exec("ROLLBACK") // SQLite may have left the transaction open
		return err
	}
	return nil
}

func (st *File) putName(tx *sql.Tx, enum string, id int, name string) error {
	_, err := tx.Exec(`INSERT INTO names VALUES(?, ?, ?, ?)`, enum, id, name, st.sum.name(enum, int64(id), name))
	return err
}

func (st *File) putDoc(tx *sql.Tx, key string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT OR REPLACE INTO doc VALUES(?, ?, ?)`, key, string(text), st.sum.doc(key, string(text)))
	return err
}

// Path returns the name of the file.
func (st *File) Path() string { return st.path }

// Finish writes how the run ended.
func (st *File) Finish(o trace.Outcome) error {
	err := st.transact(func(tx *sql.Tx) error {
		if err := st.putDigest(tx); err != nil {
			return err
		}
		return st.putDoc(tx, "outcome", o)
	})
	return st.writing(err)
}

// writing wraps an error of writing the file.
func (st *File) writing(err error) error {
	return errs.Wrap(err, "write session file", st.path, "free some space on its disk, or name a file elsewhere")
}

// reserve is how many bytes are set aside for the end of a run: some thousand steps and the
// outcome.
const reserve = 1 << 20

// KeepRoom takes some room on the session's disk. It does so with a file without a name, which goes
// away with the process. Where that fails, no room is kept.
func (st *File) KeepRoom() {
	f, err := os.CreateTemp(filepath.Dir(st.path), ".gpustall-*")
	if err != nil {
		return
	}
	_ = os.Remove(f.Name())
	noise := make([]byte, reserve) // zeros may take no room
	_, _ = rand.Read(noise)
	_, err = f.Write(noise)
	if _, there := os.Lstat(f.Name()); err != nil || there == nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return
	}
	st.room = f
}

// MakeRoom gives the room back.
func (st *File) MakeRoom() {
	if st.room != nil {
		_ = st.room.Close()
		st.room = nil
	}
}

// Close leaves one self-contained file without a write-ahead log beside it, unless another process
// is reading the session at that moment.
func (st *File) Close() error {
	st.closeOnce.Do(func() {
		st.MakeRoom()
		for range 50 {
			var mode string
			if err := st.db.QueryRow("PRAGMA journal_mode=DELETE").Scan(&mode); err == nil && mode == "delete" {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err := st.db.Close(); err != nil {
			st.closeErr = st.writing(err)
		}
	})
	return st.closeErr
}

// Save writes a session that is in memory to a new file.
func Save(path string, s *trace.Session) error {
	snap := s.Snapshot(minTime, maxTime)
	st, err := Create(path, snap.Meta)
	if err != nil {
		return err
	}
	b := trace.Drained{
		Now: snap.Now, Segments: snap.Segments, Spans: snap.Spans,
		Notes: snap.Notes, Ops: snap.Ops, Drops: snap.Outcome.Drops, Baseline: &snap.Baseline, Files: snap.Files, Lines: snap.Lines,
		Experiments: snap.Experiments,
	}
	for step, err := range snap.Each(math.MinInt32, math.MaxInt32) {
		if err != nil {
			return errors.Join(err, st.Close())
		}
		b.Steps = append(b.Steps, *step)
	}
	for name, points := range snap.Gauges {
		for _, p := range points {
			b.Gauges = append(b.Gauges, trace.GaugePoint{Name: name, Point: p})
		}
	}
	slices.SortStableFunc(b.Gauges, func(a, b trace.GaugePoint) int { return strings.Compare(a.Name, b.Name) })
	return errors.Join(st.Write(&b), st.Finish(snap.Outcome), st.Close())
}
