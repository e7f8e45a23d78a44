package source

import (
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for p, want := range map[string]string{
		"s3://b/k/":                            "s3://b/k",
		"s3://b//a/../k":                       "s3://b/k",
		"s3://b":                               "s3://b",
		"azblob://c/k":                         "azblob://c/k",
		"abfss://c@acc.dfs.core.windows.net/k": "abfss://c@acc.dfs.core.windows.net/k",
		"file:///a/b":                          "/a/b",
		"a/b":                                  "a/b",
	} {
		if got, err := Clean(p); got != want || err != nil {
			t.Errorf("%s is %q, %v", p, got, err)
		}
	}
	if p := Join("s3://b", "", "x", "y z"); p != "s3://b/x/y z" {
		t.Error(p)
	}
	if dir, name := Split("s3://b/x/y"); dir != "s3://b/x" || name != "y" {
		t.Error(dir, name)
	}
}

// TestSecretAddresses: an address that may hold credentials is refused, and not shown.
func TestSecretAddresses(t *testing.T) {
	for _, p := range []string{
		"s3://AKIA:hushhush@bucket/k", "s3://bucket/k?X-Amz-Signature=hushhush", "azblob://c/k?sig=hushhush",
		"abfss://c@hushhush/k", "https://bucket/k?sig=hushhush", "s3://", "s3:///k", "abfss://c/k", "gs://b/hushhush",
	} {
		_, err := Clean(p)
		if err == nil || strings.Contains(err.Error(), "hushhush") || strings.Contains(err.Error(), "AKIA") {
			t.Errorf("%s: %v", p, err)
		}
	}
}
