package store

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"
	"unicode"

	sqlite3 "modernc.org/sqlite/lib"

	"dev.gpustall/engine/base/errs"
	"dev.gpustall/engine/trace"
	"dev.gpustall/engine/trace/store/rows"
)

// Reasons for which Open refuses a file.
var (
	ErrNotSession = rows.ErrNotSession
	ErrNewer      = rows.ErrNewer
	ErrDamaged    = rows.ErrDamaged
)

// hints say what to do about each.
var hints = map[error]string{
	ErrNotSession: "pass a file that a run wrote",
	ErrNewer:      "upgrade this one to open it",
	ErrDamaged:    "restore a copy, or delete it and run again",
}

const (
	minTime = math.MinInt64 / 4
	maxTime = math.MaxInt64 / 4

	// maxFileBytes is the size from which a file is refused unread; it is that of a thousand
	// million steps.
	maxFileBytes = 256 << 30

	// staleAfter is how old the last write of a running session may be before
	// its process is taken for dead.
	staleAfter = 5 * time.Second
)

// Open reads a session's file, which another process may be writing. A run that was killed has the
// status "killed" and ends where its file does.
//
// What is damaged is left out, and a note says so. What the session cannot do without (the
// description of the run, a segment) stays, and the note says not to trust it.
func Open(path string) (*trace.Session, error) {
	var s *trace.Session
	err := trace.Guard("read", func() (err error) {
		s, err = open(path, everything)
		return err
	})
	if err != nil {
		return nil, openError(path, err)
	}
	return s, nil
}

// extent is how much of a file is read.
type extent uint8

const (
	documents extent = iota // the description of the run and how it ended

	// As documents, with its segments, its gauges and the digest of its steps. The steps that the
	// digest does not count are read too: of a file without a digest all, of a run that was killed
	// those after the last one.
	digested

	everything // and steps, spans, ops and notes
)

// openError says why a file is refused and what to do about it.
func openError(path string, err error) error {
	for reason, hint := range hints {
		if errors.Is(err, reason) {
			return errs.New("open session", path, err.Error(), hint).Because(err)
		}
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return errs.File(err, "open session", path, "check the path")
	}
	reason := fmt.Sprintf("%s: %v", brief(err), ErrDamaged)
	if c := code(err); c == sqlite3.SQLITE_CORRUPT || c == sqlite3.SQLITE_NOTADB {
		reason = ErrDamaged.Error() + " or cut short"
	}
	return errs.New("open session", path, reason, hints[ErrDamaged]).Because(ErrDamaged)
}

// brief returns the beginning of the library's message, which may quote damaged bytes.
func brief(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	line = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, line)
	if r := []rune(line); len(r) > 100 {
		line = string(r[:100]) + "…"
	}
	return line
}

// checkHeader tells from the first page whether the file is a session that this program can read.
func checkHeader(path string) error {
	if err := checkRegular(path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return rows.Header(f)
}

// checkRegular refuses what cannot be read or would block for ever: folders, pipes, devices and
// giant files. It checks the files that SQLite keeps beside its own too.
func checkRegular(path string) error {
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		info, err := os.Stat(path + end)
		switch {
		case err != nil && end == "":
			return err
		case err != nil:
		case info.IsDir():
			return fmt.Errorf("a folder is %w", ErrNotSession)
		case !info.Mode().IsRegular():
			return fmt.Errorf("a pipe, socket or device is %w", ErrNotSession)
		case info.Size() > maxFileBytes:
			return fmt.Errorf("a file of %d bytes, where a session has at most %d, is %w", info.Size(), int64(maxFileBytes), ErrNotSession)
		}
	}
	return nil
}

// readOnly are the parameters for opening a file to read it.
var readOnly = []string{"_pragma=busy_timeout(2000)", "_pragma=trusted_schema(0)", "_pragma=query_only(1)"}

// open reads the file.
func open(path string, to extent) (*trace.Session, error) {
	if err := checkHeader(path); err != nil {
		return nil, err
	}
	s, err := load(path, to, "mode=ro")
	if err != nil && !errors.Is(err, ErrDamaged) {
		// The folder cannot be written to: read the file without its log.
		if again, err2 := load(path, to, "immutable=1"); err2 == nil {
			return again, nil
		}
	}
	return s, err
}

func load(path string, to extent, mode string) (*trace.Session, error) {
	db, err := openDB(path, append(readOnly, mode)...)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	tx, err := db.Begin() // one state of the file while another process writes it
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	l := loader{tx: tx, to: to, s: new(trace.Snapshot)}
	l.tables()
	l.columns()
	l.readDocs()
	if to >= digested {
		l.segments()
		l.experiments()
		l.steps()
		l.gauges() // the verdict rests on the host's too
	}
	l.ended()
	if to == everything {
		l.names()
		l.ops()
		l.readSpans()
		l.notes()
		l.report()
	}
	if l.err != nil {
		return nil, l.err
	}
	if l.s.Total.Steps > int64(len(l.s.Recent)) {
		l.s.Older = stepFile{path: path, mode: mode, told: l.through}
	}
	s := trace.Restore(l.s)
	for _, spans := range l.spans {
		s.Add(&trace.Drained{Now: l.s.Now, Drops: l.s.Outcome.Drops, Spans: spans})
	}
	return s, nil
}

// loader reads one table after another and keeps the first error.
type loader struct {
	tx      *sql.Tx
	to      extent
	s       *trace.Snapshot // so far
	spans   [][]trace.Span  // one chunk after another
	kind    [256]trace.Kind
	cause   map[uint32]trace.Cause
	sums    []string // names of tables that have checksums
	worked  bool     // steps have a column for their work
	counted bool     // and one for Step.Through
	sum     rowSum
	docs    rows.Documents
	through bool // all steps were read
	err     error
}

// tables refuses a file that has views or virtual tables in the place of a session's tables,
// because those may have endless rows.
func (l *loader) tables() {
	l.rows(`SELECT name FROM sqlite_master WHERE name IN ('doc','names','segments','knobs','steps','spans','notes','gauges','ops','experiments','digest')
		AND (type <> 'table' OR sql LIKE 'CREATE VIRTUAL%')`, func(r *sql.Rows) error {
		return fmt.Errorf("a part of it is not a table: %w", ErrDamaged)
	})
}

// columns finds out which tables have checksums, and which newer columns the file has.
func (l *loader) columns() {
	for _, table := range summedTables {
		if l.hasColumn(table, "crc") {
			l.sums = append(l.sums, table)
		}
	}
	l.worked, l.counted = l.hasColumn("steps", "work"), l.hasColumn("steps", "through")
}

func (l *loader) hasColumn(table, name string) (has bool) {
	l.rows(`SELECT 1 FROM pragma_table_info('`+table+`') WHERE name = '`+name+`'`, func(*sql.Rows) error {
		has = true
		return nil
	})
	return has
}

// harmed collects what is wrong with the file; report tells it.
func (l *loader) harmed(format string, args ...any) {
	l.s.Damage = append(l.s.Damage, "the session file is damaged: "+fmt.Sprintf(format, args...))
}

// report adds what is wrong to the end of the session's log.
func (l *loader) report() {
	at := l.s.Now
	for _, n := range l.s.Notes {
		at = max(at, n.T)
	}
	for _, text := range l.s.Damage {
		l.s.Notes = append(l.s.Notes, trace.Note{T: at, Level: "warn", Text: text})
	}
}

// rows calls scan for each row of the query.
func (l *loader) rows(query string, scan func(*sql.Rows) error, args ...any) {
	if l.err != nil {
		return
	}
	rows, err := l.tx.Query(query, args...)
	if err != nil {
		l.err = err
		return
	}
	defer rows.Close()
	for rows.Next() {
		if l.err = scan(rows); l.err != nil {
			return
		}
	}
	l.err = rows.Err()
}

// fail keeps the first error.
func (l *loader) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// readDocs reads the documents. It leaves out damaged ones, except those that no session can do
// without.
func (l *loader) readDocs() {
	docs, damaged := map[string]string{}, map[string]bool{}
	l.rows(`SELECT key, value, `+l.sumColumn("doc")+` FROM doc LIMIT 1000`, func(r *sql.Rows) error {
		var k, v string
		var sum sql.NullInt64
		err := r.Scan(&k, &v, &sum)
		docs[k], damaged[k] = v, !l.intact("doc", err, sum, l.sum.doc(k, v))
		return l.err
	})
	if l.err != nil {
		return
	}
	var harm []string
	if harm, l.err = l.docs.Read(docs, damaged); l.err != nil {
		return
	}
	for _, h := range harm {
		l.harmed("%s", h)
	}
	l.s.Meta, l.s.Outcome, l.s.Baseline, l.s.Files, l.s.Lines, l.s.Peers, l.s.Now = l.docs.Meta, l.docs.Outcome, l.docs.Baseline, l.docs.Files, l.docs.Lines, l.docs.Peers, l.docs.Now
}

// ended works out how far the session is known, and notices when the process of a running session
// is dead.
func (l *loader) ended() {
	s := l.s
	if !l.docs.NowKnown {
		s.Now = max(s.Last.End, s.Outcome.Ended)
	}
	if s.Outcome.Status == "running" && time.Since(time.UnixMilli(l.docs.Beat)) > staleAfter {
		s.Outcome.Status, s.Outcome.Ended = "killed", s.Now
	}
}

// names reads what the numbers of causes and kinds in this file mean.
func (l *loader) names() {
	kinds := map[string]trace.Kind{}
	for k := range trace.NumKinds {
		kinds[k.String()] = k
	}
	l.cause = map[uint32]trace.Cause{}
	damaged := 0
	l.rows(`SELECT enum, id, name, `+l.sumColumn("names")+` FROM names LIMIT 10000`, func(r *sql.Rows) error {
		var enum, name string
		var id uint8
		var sum sql.NullInt64
		err := r.Scan(&enum, &id, &name, &sum)
		if !l.intact("names", err, sum, l.sum.name(enum, int64(id), name)) {
			damaged++
			return l.err
		}
		switch enum {
		case "kind":
			l.kind[id] = kinds[name] // KindNone where this program knows no such kind
		case "cause":
			l.cause[uint32(id)], _ = trace.ParseCause(name)
		}
		return nil
	})
	if damaged > 0 {
		l.harmed("left out %d of its names of kinds and causes that are not what was written: spans that have them are of no kind, or of no known cause", damaged)
	}
}

func orNaN(v sql.NullFloat64) float64 {
	if v.Valid {
		return v.Float64
	}
	return math.NaN()
}
