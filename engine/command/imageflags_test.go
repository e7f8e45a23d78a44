package command

import (
	"strings"
	"testing"
)

// TestTransformFlags: what cannot be done to any image is refused before anything is opened.
func TestTransformFlags(t *testing.T) {
	for _, tt := range []struct {
		f    imageFlags
		want string
	}{
		{imageFlags{transform: "rrc(224)|hflip|normalize"}, ""},
		{imageFlags{size: 224}, ""},
		{imageFlags{size: 5000}, "choose 1 to 4096"},
		{imageFlags{transform: "rrc(8)", size: 8}, "leave one out"},
		{imageFlags{transform: "rrc(8)|hflap"}, "at character 8"},
	} {
		err := tt.f.check()
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || exitCode(err) != exitUsage) {
			t.Errorf("%+v: %v, want %q", tt.f, err, tt.want)
		}
		if tt.f.transform == "rrc(8)|hflap" && pointed(err) != "  rrc(8)|hflap\n         ^\n" {
			t.Errorf("it points so:\n%s", pointed(err))
		}
	}
}
