package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What a session's file says of itself in its SQLite header.
const (
	Schema      = 1          // PRAGMA user_version; older files are read, newer ones refused
	Application = 0x67707374 // PRAGMA application_id: "gpst"
)

// Reasons for which a file is refused.
var (
	ErrNotSession = errors.New("not a gpustall session")
	ErrNewer      = errors.New("written by a newer gpustall")
	ErrDamaged    = errors.New("the file is damaged")
)

// Header tells from a file's first bytes whether it is a session that can be read.
func Header(r io.Reader) error {
	var head [100]byte // SQLite file format, section 1.3
	n, err := io.ReadFull(r, head[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return fmt.Errorf("an empty file is %w", ErrNotSession)
	case string(head[:min(n, 16)]) != "SQLite format 3\x00":
		return ErrNotSession
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case binary.BigEndian.Uint32(head[68:]) != Application:
		return fmt.Errorf("a database of another program is %w", ErrNotSession)
	}
	if v := binary.BigEndian.Uint32(head[60:]); v > Schema {
		return fmt.Errorf("schema %d where this one knows %d: %w", v, Schema, ErrNewer)
	}
	return nil
}
