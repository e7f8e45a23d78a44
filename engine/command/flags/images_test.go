package flags

import (
	"strings"
	"testing"

	"dev.gpustall/engine/command/cli"
)

// TestTransformFlags: a transform that no image can take is refused before anything is opened.
func TestTransformFlags(t *testing.T) {
	for _, tt := range []struct {
		f    Images
		want string
	}{
		{Images{Transform: "rrc(224)|hflip|normalize"}, ""},
		{Images{Size: 224}, ""},
		{Images{Size: 5000}, "choose 1 to 4096"},
		{Images{Transform: "rrc(8)", Size: 8}, "leave one out"},
		{Images{Transform: "rrc(8)|hflap"}, "at character 8"},
	} {
		err := tt.f.Check()
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || cli.ExitCode(err) != cli.ExitUsage) {
			t.Errorf("%+v: %v, want %q", tt.f, err, tt.want)
		}
		if tt.f.Transform == "rrc(8)|hflap" && cli.Caret(err) != "  rrc(8)|hflap\n         ^\n" {
			t.Errorf("it points so:\n%s", cli.Caret(err))
		}
	}
}
