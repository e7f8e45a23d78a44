package command

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dev.gpustall/engine/command/cli"
)

// TestWaitFor: a run that ends at once says nothing; one that takes long says why.
func TestWaitFor(t *testing.T) {
	want := errors.New("why")
	for after, says := range map[time.Duration]string{cli.StopPause / 2: "", 3 * cli.StopPause: "stopping"} {
		synctest.Test(t, func(t *testing.T) {
			trained := make(chan error, 1)
			go func() {
				time.Sleep(after)
				trained <- want
			}()
			var out strings.Builder
			if err := waitFor(trained, &out); !errors.Is(err, want) || !strings.HasPrefix(out.String(), says) || (says == "") != (out.Len() == 0) {
				t.Errorf("after %v: %v, %q", after, err, out.String())
			}
		})
	}
}
