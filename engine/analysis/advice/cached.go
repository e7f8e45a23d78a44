package advice

import (
	"fmt"

	"dev.gpustall/engine/base/units"
	"dev.gpustall/engine/trace"
)

// Cached says where the data of a run was when it began: on the disk or in memory.
func Cached(c *trace.Cached) string {
	of := "the data's " + units.Prose.Bytes(c.Of)
	if c.More {
		of = fmt.Sprintf("the %s of its first %s", units.Prose.Bytes(c.Of), units.Counted(c.Files, "file", "files"))
	}
	s := fmt.Sprintf("%s: %s of %s was in the page cache when the run began", c.State(), units.Prose.Percent(c.Share()), of)
	if c.Dropped {
		s += ", from which it had been dropped"
	}
	return s
}
