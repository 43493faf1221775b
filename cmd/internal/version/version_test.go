package version

import (
	"runtime/debug"
	"testing"
)

func TestVersionIsNeverEmpty(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		name, stamp string
		info        debug.BuildInfo
		want        string
	}{
		{"the stamp of a release wins", "v1.2.3", debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}}, "v1.2.3"},
		{"go install leaves the module version", "", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{"a checkout is named by its commit", "", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: commit}, "devel-0123456789ab-dirty"},
		{"a build that knows nothing", "", debug.BuildInfo{}, "devel"},
	} {
		if have := of(c.stamp, &c.info); have != c.want {
			t.Errorf("%s: have %q, want %q", c.name, have, c.want)
		}
	}
	if String() == "" {
		t.Error("the version of this very binary is empty")
	}
}
