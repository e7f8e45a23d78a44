package source

import "testing"

// TestCacheOfEarlierRuns: the blocks that were used longest ago are removed first, also those
// of earlier runs.
func TestCacheOfEarlierRuns(t *testing.T) {
	dir, b := t.TempDir(), make([]byte, 1000)
	c, err := NewCache(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a" + cacheExt, "b" + cacheExt, "c" + cacheExt} {
		c.put(name, b)
	}
	if !c.get("a"+cacheExt, b) {
		t.Fatal("a is not kept")
	}
	if c, err = NewCache(dir, 2100); err != nil || !c.get("a"+cacheExt, b) || c.get("b"+cacheExt, b) || !c.get("c"+cacheExt, b) {
		t.Errorf("%d bytes are kept: %v", c.Bytes(), err)
	}
}
