package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

// nextRelease is the version that this source becomes. It is what a build says that no tag has a word for.
const nextRelease = "0.1.0"

// kernelFloor is the oldest Linux that memtrace runs on; the integration tests run on it.
const kernelFloor = "5.10"

// Set by the linker; see the Makefile. A plain go build or go install leaves them empty.
var (
	linkedVersion string
	linkedCommit  string
)

// version is the release of this binary, without the tag's v.
var version, commit = identifyBuild(linkedVersion, linkedCommit, debug.ReadBuildInfo)

// identifyBuild tells a binary's version and commit: from the linker, else from what the go command wrote into the binary.
func identifyBuild(version, commit string, read func() (*debug.BuildInfo, bool)) (string, string) {
	info, ok := read()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if version == "" {
		version = moduleVersion(info.Main.Version)
	}
	if commit == "" {
		commit = vcsCommit(info.Settings)
	}
	return version, commit
}

// moduleVersion is the version of a module that was fetched. A checkout's build has "(devel)", or a version that the go
// command makes up of the commit's time and hash, v0.0.0-…, where no tag comes before it.
func moduleVersion(module string) string {
	if module == "" || module == "(devel)" {
		return nextRelease + "-dev"
	}
	if made, ok := strings.CutPrefix(module, "v0.0.0-"); ok {
		return nextRelease + "-dev." + strings.ReplaceAll(made, "-", ".")
	}
	return strings.TrimPrefix(module, "v")
}

func vcsCommit(settings []debug.BuildSetting) string {
	commit, dirty := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
}

// versionText is what --version prints.
func versionText() string {
	text := "memtrace " + version
	if commit != "" {
		text += " (commit " + commit + ")"
	}
	return text + ", " + madeFor
}

func init() {
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintln(c.App.Writer, versionText()) }
}
