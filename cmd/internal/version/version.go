// Package version says which build of quorate this is.
//
// A release stamps the version with the linker, `go install …@v1.2.3` leaves it
// in the build information, and anything else is named by its commit. There is
// always an answer: an operator comparing three nodes must never read "".
package version

import "runtime/debug"

// stamp is set by the linker: -ldflags "-X …/version.stamp=v1.2.3".
var stamp string

// String returns the version of this binary.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return of(stamp, info)
}

func of(stamp string, info *debug.BuildInfo) string {
	if stamp != "" {
		return stamp
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var revision, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				modified = "-dirty"
			}
		}
	}
	if len(revision) > 12 {
		revision = revision[:12]
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision + modified
}
