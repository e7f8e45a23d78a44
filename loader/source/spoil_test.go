package source_test

import (
	"os"
	"testing"
)

// spoil puts a file where the cache was: nothing can be written there, not even by root.
func spoil(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
