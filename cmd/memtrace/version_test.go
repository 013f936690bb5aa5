package main

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionOfEachBuild(t *testing.T) {
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "false"}}
	changed := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		name, linked, linkedCommit, module string
		settings                           []debug.BuildSetting
		version, commit                    string
	}{
		{"make build", "0.2.0", "feedfacecafe", "(devel)", nil, "0.2.0", "feedfacecafe"},
		{"go install of a tag", "", "", "v0.2.0", nil, "0.2.0", ""},
		{"go build of a tag", "", "", "v0.2.0", vcs, "0.2.0", "0123456789ab"},
		{"go build without a tag", "", "", "v0.0.0-20261126113332-6116276c1234", vcs,
			nextRelease + "-dev.20261126113332.6116276c1234", "0123456789ab"},
		{"go build of a changed checkout", "", "", "(devel)", changed, nextRelease + "-dev", "0123456789ab-dirty"},
		{"go build without git", "", "", "(devel)", nil, nextRelease + "-dev", ""},
		{"an older go", "", "", "", nil, nextRelease + "-dev", ""},
	} {
		version, commit := identifyBuild(c.linked, c.linkedCommit, func() (*debug.BuildInfo, bool) {
			return &debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings}, true
		})
		if version != c.version || commit != c.commit {
			t.Errorf("%s: version %q, commit %q; want %q, %q", c.name, version, commit, c.version, c.commit)
		}
	}
	version, commit := identifyBuild("", "", func() (*debug.BuildInfo, bool) { return nil, false })
	if version != nextRelease+"-dev" || commit != "" {
		t.Errorf("without build information: version %q, commit %q", version, commit)
	}
}

// The changelog's topmost release is the one that this source is or becomes.
func TestChangelogHasTheRelease(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindStringSubmatch(string(text))
	if m == nil || m[1] != nextRelease {
		t.Errorf("CHANGELOG.md's topmost release is %q, version.go's %s", m, nextRelease)
	}
}

func TestReadmeNamesTheKernelFloor(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "Linux " + kernelFloor + " or newer"; !strings.Contains(string(text), want) {
		t.Errorf("README.md does not say %q", want)
	}
}
